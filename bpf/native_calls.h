/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The calls that each thread is in, and how they become records.
 *
 * They are kept as the OS kernel keeps the return probes it has armed: a stack, in which a call is
 * known by the stack pointer at its entry. Stacks grow down, so a call whose stack pointer is not
 * above that of a later call has been left without returning (longjmp, an exception): it is written
 * when that is noticed. Programs that switch between several stacks on one thread break the order,
 * in here and in the OS kernel, which would then let a call return to the caller of another: such
 * processes must not be probed.
 */
#ifndef RLS_NATIVE_CALLS_H
#define RLS_NATIVE_CALLS_H

#include "btf_filter.h"
#include "native_state.h"

/* A power of two. The OS kernel arms at most 64 return probes. */
#define RLS_NATIVE_DEPTH 16

struct rls_native_frame {
	__u64 start_ns;
	__u64 stack_pointer; /* at the entry: where the return address lies */
	__u64 cookie;
};

struct rls_native_calls {
	__u32 depth;	 /* frames in use */
	__u32 epoch;	 /* value of native_epoch when the frames were last looked through */
	__u32 is_ending; /* whoever sets it ends all calls: the thread's end and the walk can meet
			  */
	__u32 reserved;
	__u64 gil_released_ns;
	__u64 latest;	 /* cookie that took the last entry: see is_taken */
	__u64 passed_sp; /* stack pointer of the outermost call that was seen, but is not
			  * remembered; 0: none */
	struct rls_native_frame frames[RLS_NATIVE_DEPTH];
};

/* Threads that called a probed function: the calls they are in. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rls_native_calls);
} calls SEC(".maps");

/* site_id -> number of the link that serves it; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} serving_links SEC(".maps");

/* Per CPU: site_id -> its calls; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rls_native_counter);
} counters SEC(".maps");

/* Per CPU: calls that are not in the trace. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rls_native_losses);
} losses SEC(".maps");

/* Counted up by the recorder whenever it has taken a link away. */
volatile __u32 native_epoch SEC(".data.native") = 0;

/* Atomic, as these programs can be preempted, and another thread run them on the same CPU. */
#define COUNT_NATIVE_LOSS(why)                                                          \
	do {                                                                            \
		__u32 zero = 0;                                                         \
		struct rls_native_losses *counts = bpf_map_lookup_elem(&losses, &zero); \
                                                                                        \
		if (counts)                                                             \
			__sync_fetch_and_add(&counts->why, 1);                          \
	} while (0)

static __always_inline struct rls_native_frame *frame_at(struct rls_native_calls *stack,
							 __u32 index)
{
	return &stack->frames[index & (RLS_NATIVE_DEPTH - 1)];
}

/* The link that serves the site of `cookie`. */
static __always_inline __u32 link_serving(__u64 cookie)
{
	__u32 site = RLS_NATIVE_SITE(cookie);
	volatile __u32 *link = bpf_map_lookup_elem(&serving_links, &site);

	return link ? *link : RLS_NATIVE_NO_LINK;
}

static __always_inline bool is_served(__u64 cookie)
{
	return link_serving(cookie) == RLS_NATIVE_LINK(cookie);
}

/*
 * Whether the entry of a function has been taken by the link that serves it, which is not that of
 * `cookie`.
 *
 * Until a replaced link is gone, both run at an entry, first the newer one: the OS kernel puts a
 * probe before those that are there. The newer one leaves entries alone until it serves. So the
 * older one must not do the same as soon as it does not serve: the recorder may have changed the
 * link between the two, or have added the newer one after the older one had begun. It takes what
 * the newer one has not taken. What was taken last in this thread tells: a link that has taken one
 * entry of a site takes all that follow in the thread, so it cannot be an earlier one.
 */
static __always_inline bool is_taken(struct rls_native_calls *stack, __u64 cookie, __u32 serving)
{
	return serving != RLS_NATIVE_LINK(cookie) &&
	       stack->latest == RLS_NATIVE_COOKIE(RLS_NATIVE_SITE(cookie), RLS_NATIVE_LAYER(cookie),
						  serving);
}

/*
 * Notes that a call will not be remembered, and why is known: its return, where one is seen, is no
 * loss of its own. Neither are those of the calls inside it that are not remembered.
 */
static __always_inline void pass_call(struct rls_native_calls *stack, __u64 stack_pointer)
{
	if (stack->passed_sp < stack_pointer)
		stack->passed_sp = stack_pointer;
}

/* A call there means that they are over, in whatever way they were left. */
static __always_inline void forget_passed(struct rls_native_calls *stack, __u64 stack_pointer)
{
	if (stack_pointer >= stack->passed_sp)
		stack->passed_sp = 0;
}

/* Whether the call that returns is one of those. */
static __always_inline bool is_passed(struct rls_native_calls *stack, __u64 stack_pointer)
{
	__u64 outermost = stack->passed_sp;

	forget_passed(stack, stack_pointer);
	return stack_pointer <= outermost;
}

static __always_inline void count_call(__u32 site, __u64 time_ns)
{
	struct rls_native_counter *counter = bpf_map_lookup_elem(&counters, &site);

	if (!counter)
		return;
	__sync_fetch_and_add(&counter->hits, 1);
	__sync_fetch_and_add(&counter->time_ns, time_ns);
}

static void count_lost_call(__u64 now_ns)
{
	__u32 kind = RLS_REC_CALL;
	struct rls_loss *lost = bpf_map_lookup_elem(&loss, &kind);

	if (lost && __sync_fetch_and_add(&lost->count, 1) == 0)
		lost->first_ns = now_ns;
}

/*
 * The functions below that are not static are verified once, by themselves, and not again with all
 * that may lead to them: a tenth of the time it takes to load. Such a function has to return a
 * number, and to look at the pointers it gets.
 */

/* Writes the record of the innermost call, and forgets the call. */
__noinline int pop_call(__u32 thread_id, struct rls_native_calls *stack, __u64 end_ns, __u16 flags)
{
	struct rls_native_frame *frame;
	struct rls_rec_call *record;
	__u32 index;

	if (!stack)
		return 0;
	index = stack->depth - 1;
	frame = frame_at(stack, index);
	stack->depth = index;
	count_call(RLS_NATIVE_SITE(frame->cookie), end_ns - frame->start_ns);
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_lost_call(end_ns);
		return 0;
	}
	record->kind = RLS_REC_CALL;
	record->layer = RLS_NATIVE_LAYER(frame->cookie);
	record->parent_layer = RLS_LAYER_NONE;
	if (index)
		record->parent_layer = RLS_NATIVE_LAYER(frame_at(stack, index - 1)->cookie);
	record->thread_id = thread_id;
	record->start_ns = frame->start_ns;
	record->end_ns = end_ns;
	record->site_id = RLS_NATIVE_SITE(frame->cookie);
	record->depth = index;
	record->flags = flags;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * Ends the innermost call, which will not be seen to return. If the link that saw its entry is
 * gone, it may well have returned: then nothing is known of its end.
 */
static __always_inline void leave_call(__u32 thread_id, struct rls_native_calls *stack,
				       __u64 now_ns, __u16 flags)
{
	if (is_served(frame_at(stack, stack->depth - 1)->cookie)) {
		pop_call(thread_id, stack, now_ns, flags);
		return;
	}
	stack->depth--;
	COUNT_NATIVE_LOSS(abandoned);
}

/* Ends the calls inside the outermost `depth` ones: at once, so that none outlasts the one around
 * it. */
__noinline int unwind_to_depth(__u32 thread_id, struct rls_native_calls *stack, __u32 depth,
			       __u64 now_ns, __u16 flags)
{
	int i;

	for (i = 0; i < RLS_NATIVE_DEPTH && stack && stack->depth > depth; i++)
		leave_call(thread_id, stack, now_ns, flags);
	return 0;
}

/*
 * Ends the calls that are not on the stack any more when a function is called at `stack_pointer`.
 * `keeps_equal`: it was reached by a jump out of the innermost call, whose return it shares.
 */
__noinline int unwind_above(__u32 thread_id, struct rls_native_calls *stack, __u64 stack_pointer,
			    bool keeps_equal)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct rls_native_frame *top;
	int i;

	for (i = 0; i < RLS_NATIVE_DEPTH && stack && stack->depth; i++) {
		top = frame_at(stack, stack->depth - 1);
		if (top->stack_pointer > stack_pointer)
			break;
		if (keeps_equal && top->stack_pointer == stack_pointer)
			break;
		leave_call(thread_id, stack, now_ns, RLS_CALL_UNWOUND);
	}
	return 0;
}

/*
 * Forgets the calls that can no longer be seen to return, because the link that saw their entry is
 * gone. Those around them keep their order.
 */
__noinline int forget_abandoned(struct rls_native_calls *stack, __u32 epoch)
{
	__u32 kept = 0;
	__u32 i;

	if (!stack)
		return 0;
	for (i = 0; i < RLS_NATIVE_DEPTH && i < stack->depth; i++) {
		struct rls_native_frame *frame = frame_at(stack, i);

		if (!is_served(frame->cookie)) {
			COUNT_NATIVE_LOSS(abandoned);
			pass_call(stack, frame->stack_pointer);
			continue;
		}
		*frame_at(stack, kept) = *frame;
		kept++;
	}
	stack->depth = kept;
	stack->epoch = epoch;
	return 0;
}

#endif /* RLS_NATIVE_CALLS_H */
