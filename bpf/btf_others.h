/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What kept a runnable thread from a CPU, other than traced threads: programs outside the trace,
 * and the CPU quota of its cgroup.
 */
#ifndef RLS_BTF_OTHERS_H
#define RLS_BTF_OTHERS_H

#include "btf_filter.h"

/*
 * As many stays are remembered of a CPU, for a woken thread that gets it. What a thread waited for
 * before them has no name.
 */
#define RLS_OTHER_RUNS 64

/*
 * Where no traced thread has been for so many switches, nobody looks at the others: a program that
 * has a CPU for itself pays nothing. Longer where one was preempted: it waits there, if it was not
 * moved to another CPU.
 */
#define RLS_OPEN_SWITCHES 256
#define RLS_OPEN_SWITCHES_PREEMPTED 4096

/* Below it are the priorities of real-time tasks, whose stays the scheduler does not count. */
#define RLS_FIRST_FAIR_PRIO 100

/* One stay of a task outside the trace on this CPU. */
struct rls_other_run {
	__u64 start_ns;
	__u64 end_ns;
	__u32 tgid;
	__u32 is_written; /* its record is in the ring */
	char comm[RLS_COMM_LEN];
};

struct rls_other_runs {
	__u64 start_ns; /* since when the task below has this CPU */
	__u32 tid;
	__u32 count;	 /* stays ever remembered; the last ones are in runs */
	__u32 preempted; /* traced threads that this CPU was taken from, and want it back */
	__u32 open; /* so many switches more are looked at, unless a traced thread comes or goes */
	struct rls_other_run runs[RLS_OTHER_RUNS];
};

/* Per CPU: 0 -> who outside the trace had it last. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rls_other_runs);
} other_runs SEC(".maps");

static __always_inline struct rls_other_runs *other_runs_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&other_runs, &zero);
}

/* A task outside the trace gets this CPU. */
static __always_inline void other_comes(struct rls_other_runs *here, struct task_struct *task,
					__u64 now_ns)
{
	here->start_ns = now_ns;
	here->tid = task->pid;
}

static __always_inline void write_other_run(struct rls_other_run *run, __u64 now_ns)
{
	struct rls_rec_other_run *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	run->is_written = 1;
	if (!record) {
		count_loss(RLS_REC_OTHER_RUN, now_ns);
		return;
	}
	record->kind = RLS_REC_OTHER_RUN;
	record->cpu = bpf_get_smp_processor_id();
	record->tgid = run->tgid;
	record->start_ns = run->start_ns;
	record->end_ns = run->end_ns;
	__builtin_memcpy(record->comm, run->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Whether this switch between two tasks outside the trace is worth a look. */
static __always_inline bool looks_at_others(struct rls_other_runs *here)
{
	if (!here->open)
		return false;
	if (--here->open == 0) {
		here->tid = 0;
		here->preempted = 0;
	}
	return true;
}

/* When it got the CPU, if its coming was not looked at: by the CPU time it has used since. */
static __always_inline __u64 came_by_runtime(struct task_struct *task, __u64 now_ns)
{
	if (task->prio < RLS_FIRST_FAIR_PRIO)
		return now_ns;
	return now_ns - (task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime);
}

/* It leaves the CPU to another task. Not asked where it leaves it idle: then nobody waits there. */
static __always_inline void other_goes(struct rls_other_runs *here, struct task_struct *task,
				       __u64 now_ns)
{
	bool is_known = here->start_ns && here->tid == (__u32)task->pid;
	__u64 start_ns = is_known ? here->start_ns : came_by_runtime(task, now_ns);
	struct rls_other_run *run;

	if (start_ns >= now_ns)
		return;
	run = &here->runs[here->count & (RLS_OTHER_RUNS - 1)];
	run->start_ns = start_ns;
	run->end_ns = now_ns;
	run->tgid = task->tgid;
	run->is_written = 0;
	bpf_probe_read_kernel(run->comm, sizeof(run->comm), task->group_leader->comm);
	here->count++;
	/* However many come in between: it waits here, or was moved to another CPU. */
	if (here->preempted)
		write_other_run(run, now_ns);
}

/* Since when the thread that has just got a CPU was runnable; now_ns: it is not known to have been.
 */
static __always_inline __u64 runnable_since(const struct rls_track *track, __u64 now_ns)
{
	if (track->cycle_wake_ns)
		return track->cycle_wake_ns;
	return track->off_state == RLS_OFF_RUNNABLE ? track->off_ns : now_ns;
}

/* A traced thread has got this CPU: writes who had it while the thread was runnable. */
static __always_inline void write_other_runs(struct rls_other_runs *here,
					     const struct rls_track *track, __u64 now_ns)
{
	__u64 since_ns = runnable_since(track, now_ns);

	if (track->off_state == RLS_OFF_RUNNABLE && here->preempted)
		here->preempted--;
	for (__u32 back = 1; back <= RLS_OTHER_RUNS; back++) {
		struct rls_other_run *run =
			&here->runs[(here->count - back) & (RLS_OTHER_RUNS - 1)];

		if (run->end_ns <= since_ns)
			return;
		if (!run->is_written)
			write_other_run(run, now_ns);
	}
}

static __always_inline bool counts_quota(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(task->se.cfs_rq->throttle_count);
}

/*
 * Whether the quota keeps a runnable task from running. Since 6.18 the scheduler says so of each
 * task; before, of each queue, which holds all tasks of a cgroup on one CPU.
 */
static __always_inline bool waits_for_quota(struct task_struct *task)
{
	if (bpf_core_field_exists(task->throttled))
		return task->throttled;
	return counts_quota(task) && task->se.cfs_rq && task->se.cfs_rq->throttle_count > 0;
}

static __always_inline void write_quota(const struct rls_track *track, __u64 now_ns)
{
	struct rls_rec_quota *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count_loss(RLS_REC_QUOTA, now_ns);
		return;
	}
	record->kind = RLS_REC_QUOTA;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

#endif /* RLS_BTF_OTHERS_H */
