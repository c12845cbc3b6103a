/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Samples of the traced threads: at every tick of a CPU's clock, where the thread on it is, the
 * top of its stack and the Python functions it is in.
 *
 * Everything read here belongs to a running program and can be anything: it is only ever copied,
 * followed through reads that can fail, and bounded.
 */
#include "btf_filter.h"
#include "machine.h"
#include "sample.h"

/* Fields of the OS kernel's types that only this object needs. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct___sample {
	unsigned long start_stack;
};

struct task_struct___sample {
	struct mm_struct___sample *mm;
	__u64 self_exec_id;
};

#pragma clang attribute pop

/* Process, as the recorder sees it -> its Python interpreter. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct rls_python);
} python_processes SEC(".maps");

struct rls_python_thread {
	__u64 state;	    /* address of its PyThreadState; 0: it has none */
	__u64 looked_at_ns; /* when that was found out */
};

/* Thread -> where its Python thread state was last found. */
struct {
	__uint(type, 9 /* BPF_MAP_TYPE_LRU_HASH */);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct rls_python_thread);
} python_threads SEC(".maps");

/* Thread states looked at in one tick, at most: their list can be long, or a circle. */
#define MAX_THREAD_STATES 128
/* After a look at this many, a thread that has none is not looked up again for a while. */
#define FEW_THREAD_STATES 16
#define FORGET_NONE_NS 50000000ULL
#define FRAME_HEAD_BYTES 80

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (const void *)address);
	return word;
}

static __always_inline __u64 innermost_frame(const struct rls_python *python, __u64 state)
{
	__u64 frame = read_word(state + python->thread_frame);

	if (frame && python->cframe_frame != RLS_PYTHON_ABSENT)
		frame = read_word(frame + python->cframe_frame);
	return frame;
}

/*
 * Whether `state` is the thread state of this very thread, now: memory that was freed since it was
 * found can still hold the number of the thread, but is no longer in the list.
 */
static __always_inline bool is_current(const struct rls_python *python, __u64 state, __u64 self)
{
	__u64 prev;

	if (read_word(state + python->thread_id) != self)
		return false;
	prev = read_word(state + python->thread_prev);
	if (prev)
		return read_word(prev + python->thread_next) == state;
	return read_word(read_word(state + python->thread_interp) + python->interp_thread) == state;
}

/*
 * Finds the thread state of the thread `self` in the lists of all interpreters. A thread can have
 * one in several: the one that runs Python functions counts. Not static, nor is what follows: so it
 * is verified once, by itself.
 */
__noinline __u64 find_state(const struct rls_python *python, __u64 self, __u32 *looked_at)
{
	__u64 interp, state = 0, found = 0;
	__u32 i;

	if (!python || !looked_at)
		return 0;
	interp = read_word(python->runtime + python->runtime_head);
	if (interp)
		state = read_word(interp + python->interp_thread);
	for (i = 0; i < MAX_THREAD_STATES; i++) {
		if (!state) {
			if (!interp)
				break;
			interp = read_word(interp + python->interp_next);
			if (!interp)
				break;
			state = read_word(interp + python->interp_thread);
			continue;
		}
		if (read_word(state + python->thread_id) == self) {
			found = state;
			if (innermost_frame(python, state))
				break;
		}
		state = read_word(state + python->thread_next);
	}
	*looked_at = i;
	return found;
}

static __always_inline __u64 frame_of_thread(const struct rls_python *python, __u32 thread_id,
					     __u64 self, __u64 now_ns, bool *has_state)
{
	struct rls_python_thread *known = bpf_map_lookup_elem(&python_threads, &thread_id);
	struct rls_python_thread seen = {.looked_at_ns = now_ns};
	__u32 looked_at = 0;
	__u64 frame;

	if (known && known->state && is_current(python, known->state, self)) {
		*has_state = true;
		frame = innermost_frame(python, known->state);
		if (frame)
			return frame;
	} else if (known && !known->state && now_ns - known->looked_at_ns < FORGET_NONE_NS) {
		return 0;
	}
	seen.state = find_state(python, self, &looked_at);
	if (seen.state || looked_at > FEW_THREAD_STATES)
		bpf_map_update_elem(&python_threads, &thread_id, &seen, BPF_ANY);
	if (!seen.state)
		return 0;
	*has_state = true;
	return innermost_frame(python, seen.state);
}

__noinline int walk_frames(const struct rls_python *python, __u64 frame,
			   struct rls_raw_sample *sample)
{
	__u32 prev_at, code_at, owner_at;
	bool has_owner;
	__u32 i;

	if (!python || !sample)
		return 0;
	/* The masks change nothing: they prove to the verifier that all lie in the head. */
	prev_at = python->frame_prev & 0x38;
	code_at = python->frame_code & 0x38;
	owner_at = python->frame_owner & 0x4f;
	has_owner = python->frame_owner != RLS_PYTHON_ABSENT;
	/* One counter for both: the verifier follows every pair of two to its end. */
	for (i = 0; i < RLS_SAMPLE_FRAMES && frame; i++) {
		char head[FRAME_HEAD_BYTES];

		if (bpf_probe_read_user(head, sizeof(head), (const void *)frame))
			break;
		frame = *(__u64 *)(head + prev_at);
		sample->frames[i] = *(__u64 *)(head + code_at) & ~RLS_PYTHON_TAG;
		if (has_owner && (__u8)head[owner_at] >= RLS_PYTHON_OWNED_BY_C_STACK)
			sample->frames[i] = 0;
	}
	sample->frame_count = i;
	if (frame)
		sample->flags |= RLS_RAW_FRAMES_CUT;
	return 0;
}

/* The interpreter of the process; of its parent, if it is a copy of that and not known yet. */
static __always_inline struct rls_python *python_of(struct rls_raw_sample *sample,
						    struct task_struct *task)
{
	struct task_struct___sample *fields = (void *)task;
	/* Copies: 6.1 takes no key that lies in the ring. */
	__u32 process = sample->ns_tgid;
	__u32 parent = sample->ns_parent;
	struct rls_python *python = bpf_map_lookup_elem(&python_processes, &process);

	if (!python)
		python = bpf_map_lookup_elem(&python_processes, &parent);
	if (!python)
		return 0;
	/* Every exec has a stack of its own, at random: this tells a copy from another program. */
	if (python->start_stack && python->start_stack != BPF_CORE_READ(fields, mm, start_stack))
		return 0;
	return python;
}

static __always_inline void add_python(struct rls_raw_sample *sample, struct task_struct *task)
{
	struct rls_python *python = python_of(sample, task);
	bool has_state = false;
	__u64 frame;

	if (!python)
		return;
	sample->flags |= RLS_RAW_PYTHON;
	frame = frame_of_thread(python, sample->thread_id,
				thread_pointer(task) - python->self_before, sample->ts_ns,
				&has_state);
	if (!has_state)
		return;
	sample->flags |= RLS_RAW_THREAD_STATE;
	walk_frames(python, frame, sample);
}

static __always_inline void add_stack(struct rls_raw_sample *sample)
{
	__u32 to_page_end = 4096 - (sample->sp & 4095);

	sample->stack_bytes = RLS_SAMPLE_STACK_BYTES;
	if (!bpf_probe_read_user(sample->stack, sizeof(sample->stack), (const void *)sample->sp))
		return;
	/* All or nothing: near its end the stack may have less than that. */
	sample->stack_bytes = 0;
	if (to_page_end >= RLS_SAMPLE_STACK_BYTES)
		return;
	if (!bpf_probe_read_user(sample->stack, to_page_end, (const void *)sample->sp))
		sample->stack_bytes = to_page_end;
}

static __always_inline void add_user_registers(struct rls_raw_sample *sample,
					       const struct rls_registers *at_tick,
					       struct task_struct *task)
{
	struct pt_regs *user;
	__u64 ip, sp, link;

	if (is_in_user_space(at_tick)) {
		ip = at_tick->ip;
		sp = at_tick->sp;
		link = link_at_tick(at_tick);
		/* Loads of both branches could become one, by a pointer that the verifier refuses.
		 */
		barrier_var(ip);
		barrier_var(sp);
		barrier_var(link);
		sample->ip = ip;
		sample->sp = sp;
		sample->link = link;
		return;
	}
	user = (struct pt_regs *)bpf_task_pt_regs(task);
	sample->flags |= RLS_RAW_IN_OS_KERNEL;
	sample->ip = code_address(user);
	sample->sp = stack_address(user);
	sample->link = link_of(user);
}

SEC("perf_event")
int on_tick(struct rls_registers *at_tick)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rls_track *track = track_of(task);
	struct rls_raw_sample *sample;
	__u64 now_ns;

	if (!track || !track->thread_id)
		return 0;
	now_ns = bpf_ktime_get_ns();
	sample = bpf_ringbuf_reserve(&ring, sizeof(*sample), 0);
	if (!sample) {
		count_loss(RLS_REC_SAMPLE, now_ns);
		return 0;
	}
	sample->kind = RLS_REC_SAMPLE;
	sample->flags = 0;
	sample->frame_count = 0;
	sample->thread_id = track->thread_id;
	sample->ts_ns = now_ns;
	sample->born_ns = BPF_CORE_READ(task, group_leader, start_time);
	sample->ns_tgid = pid_seen_by_recorder(task->group_leader);
	sample->ns_parent = pid_seen_by_recorder(task->real_parent->group_leader);
	sample->exec_id = (__u32)BPF_CORE_READ((struct task_struct___sample *)task, self_exec_id);
	add_user_registers(sample, at_tick, task);
	add_stack(sample);
	add_python(sample, task);
	bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Run by the recorder before the first tick: learns whose pids the user sees. */
SEC("iter/task")
int learn_recorder(struct bpf_iter__task *ctx)
{
	struct task_struct *recorder = bpf_get_current_task_btf();

	if (recorder->thread_pid)
		control.recorder_ns_level = recorder->thread_pid->level;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
