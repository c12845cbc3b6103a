/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Calls of probed functions, from entry to return, in user space programs.
 *
 * Probe points belong to files, so these programs run in every process that executes the file, and
 * must leave a process outside the traced tree as soon as they can. One of three sets is loaded:
 * `session_call` (6.13 and newer: one program for entry and return, which a bystander's return
 * does not even reach), or `enter_call` with `return_call`, attached to many points at once (6.6
 * and newer) or one by one. The first is an object of its own, native_session.bpf.o, made with
 * RLS_SESSION: for a function that the OS kernel does not have, libbpf would look through all
 * modules, which takes CAP_SYS_ADMIN.
 */
#include "native_calls.h"
#include "native_stack.h"

/*
 * Makes the remembered calls agree with the stack, on which a function is being called; false where
 * that call has to be left alone: in a signal handler with a stack of its own, the calls that were
 * interrupted look as if they had been left, to the OS kernel too.
 */
static __noinline bool settle_stack(struct task_struct *task, __u32 thread_id,
				    struct rls_native_calls *stack,
				    const struct pt_regs___user *at_entry)
{
	__u64 stack_pointer = at_entry->sp;
	__u64 top = frame_at(stack, stack->depth - 1)->stack_pointer;
	bool jumped = top == stack_pointer && is_return_armed(task, at_entry);

	if (is_on_signal_stack(task, stack_pointer) && !is_on_signal_stack(task, top)) {
		COUNT_NATIVE_LOSS(declined);
		pass_call(stack, stack_pointer);
		return false;
	}
	unwind_above(thread_id, stack, stack_pointer, jumped);
	return true;
}

/* Remembers the call; 0 where its return is of no interest. */
static __always_inline int push_call(struct task_struct *task, __u32 thread_id,
				     struct rls_native_calls *stack,
				     const struct pt_regs___user *at_entry, __u64 cookie)
{
	__u64 stack_pointer = at_entry->sp;
	struct rls_native_frame *frame;

	forget_passed(stack, stack_pointer);
	if (stack->depth && frame_at(stack, stack->depth - 1)->stack_pointer <= stack_pointer &&
	    !settle_stack(task, thread_id, stack, at_entry))
		return 0;
	if (stack->depth >= RLS_NATIVE_DEPTH) {
		count_call(RLS_NATIVE_SITE(cookie), 0);
		COUNT_NATIVE_LOSS(too_deep);
		pass_call(stack, stack_pointer);
		return 0;
	}
	frame = frame_at(stack, stack->depth);
	frame->stack_pointer = stack_pointer;
	frame->cookie = cookie;
	stack->depth++;
	frame->start_ns = bpf_ktime_get_ns();
	return 1;
}

/* What push_call returns, if the call is for this link. Not inlined: the verifier would lose sight
 * of the two values that session_call may return.
 */
static __noinline int begin_call(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rls_track *track = track_of(task);
	struct rls_native_calls *stack;
	__u32 serving;
	__u64 cookie;

	if (!track || !track->thread_id)
		return 0;
	cookie = bpf_get_attach_cookie(ctx);
	serving = link_serving(cookie);
	if (serving < RLS_NATIVE_LINK(cookie))
		return 0;
	stack = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!stack) {
		COUNT_NATIVE_LOSS(failed);
		return 0;
	}
	if (is_taken(stack, cookie, serving))
		return 0;
	stack->latest = cookie;
	if (stack->epoch != native_epoch)
		forget_abandoned(stack, native_epoch);
	return push_call(task, track->thread_id, stack, ctx, cookie);
}

/* Of a call whose entry was seen by another link. */
#define OF_ANOTHER_LINK (RLS_NATIVE_DEPTH + 1)

/* The depth of the call that returns, 1 for the outermost; 0: its entry was not seen. */
__noinline __u32 depth_of_call(struct rls_native_calls *stack, __u64 stack_pointer, __u64 cookie)
{
	__u32 missing = 0;
	__u32 depth;
	int i;

	if (!stack)
		return 0;
	depth = stack->depth;
	for (i = 0; i < RLS_NATIVE_DEPTH && depth; i++, depth--) {
		struct rls_native_frame *frame = frame_at(stack, depth - 1);

		if (frame->stack_pointer != stack_pointer)
			continue;
		if (frame->cookie == cookie)
			return depth;
		if (RLS_NATIVE_SITE(frame->cookie) == RLS_NATIVE_SITE(cookie))
			missing = OF_ANOTHER_LINK;
	}
	return missing;
}

/* is_chosen: only returns of calls that were remembered at their entry are seen. */
static __always_inline void end_call(void *ctx, bool is_chosen)
{
	__u64 now_ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct rls_track *track = track_of(task);
	struct rls_native_calls *stack;
	__u64 stack_pointer, cookie;
	__u32 depth = 0;

	if (!track || !track->thread_id)
		return;
	cookie = bpf_get_attach_cookie(ctx);
	stack = bpf_task_storage_get(&calls, task, 0, 0);
	stack_pointer = ((struct pt_regs___user *)ctx)->sp - RETURN_SLOT_BYTES;
	if (stack)
		depth = depth_of_call(stack, stack_pointer, cookie);
	/* That link sees it return too, or its call is counted as abandoned. */
	if (depth == OF_ANOTHER_LINK)
		return;
	if (!stack || !depth) {
		if (is_served(cookie) && (is_chosen || !stack || !is_passed(stack, stack_pointer)))
			COUNT_NATIVE_LOSS(unmatched);
		return;
	}
	if (stack->depth > depth)
		unwind_to_depth(track->thread_id, stack, depth, now_ns, RLS_CALL_UNWOUND);
	pop_call(track->thread_id, stack, now_ns, 0);
}

#ifdef RLS_SESSION
extern bool bpf_session_is_return(void) __ksym;

SEC("uprobe")
int session_call(void *ctx)
{
	if (bpf_session_is_return()) {
		end_call(ctx, true);
		return 0;
	}
	/* 1: the OS kernel need not arm a return probe. */
	return begin_call(ctx) ? 0 : 1;
}
#else
SEC("uprobe")
int enter_call(void *ctx)
{
	begin_call(ctx);
	return 0;
}

SEC("uretprobe")
int return_call(void *ctx)
{
	end_call(ctx, false);
	return 0;
}
#endif

/* PyEval_SaveThread and PyEval_ReleaseThread, at their entry. */
SEC("uprobe")
int release_gil(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rls_track *track = track_of(task);
	struct rls_native_calls *stack;

	if (!track || !track->thread_id)
		return 0;
	stack = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (stack)
		stack->gil_released_ns = bpf_ktime_get_ns();
	else
		COUNT_NATIVE_LOSS(failed);
	return 0;
}

/* PyEval_RestoreThread and PyEval_AcquireThread, at their return. */
SEC("uretprobe")
int take_gil(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rls_track *track = track_of(task);
	struct rls_rec_gil_release *record;
	struct rls_native_calls *stack;
	__u64 start_ns;

	if (!track || !track->thread_id)
		return 0;
	stack = bpf_task_storage_get(&calls, task, 0, 0);
	if (!stack || !stack->gil_released_ns)
		return 0;
	start_ns = stack->gil_released_ns;
	stack->gil_released_ns = 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_GIL_RELEASE, bpf_ktime_get_ns());
		return 0;
	}
	record->kind = RLS_REC_GIL_RELEASE;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->start_ns = start_ns;
	record->end_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Whoever ends the calls of a thread that will not see them return takes them all at once. */
static __always_inline void end_all_calls(struct task_struct *task, __u16 flags)
{
	struct rls_track *track = track_of(task);
	struct rls_native_calls *stack;

	if (!track || !track->thread_id)
		return;
	stack = bpf_task_storage_get(&calls, task, 0, 0);
	if (!stack || __sync_val_compare_and_swap(&stack->is_ending, 0, 1))
		return;
	stack->gil_released_ns = 0;
	if (stack->depth)
		unwind_to_depth(track->thread_id, stack, 0, bpf_ktime_get_ns(), flags);
	stack->is_ending = 0;
}

/* The program that made the calls is gone. */
SEC("tp_btf/sched_process_exec")
int end_calls_at_exec(__u64 *ctx)
{
	end_all_calls(bpf_get_current_task_btf(), RLS_CALL_UNWOUND);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int end_calls_at_exit(__u64 *ctx)
{
	end_all_calls(bpf_get_current_task_btf(), RLS_CALL_UNWOUND);
	return 0;
}

/* Run over all tasks when no probe is left: the calls that are still under way. */
SEC("iter/task")
int close_open_calls(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task)
		end_all_calls(task, RLS_CALL_OPEN);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
