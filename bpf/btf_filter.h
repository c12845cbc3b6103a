/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The filter of the flavour with BTF: which threads are traced, how one enters, and
 * the maps that all its programs share.
 *
 * A thread is traced if and only if it has task storage in `threads`: user space
 * marks the group leaders of the targets (by pidfd, so that pid namespaces and pid
 * reuse do not matter), `enter_existing` walks from there over their threads and
 * descendants, and `on_newtask` hands it on to everything they create.
 */
#ifndef RLS_BTF_FILTER_H
#define RLS_BTF_FILTER_H

#include "os_types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "ring_maps.h"
#include "track.h"

/* task_struct.__state */
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_DEAD 0x0080
#define TASK_NOLOAD 0x0400 /* with D: an idle OS kernel thread */

/* Traced threads: what is remembered of each. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rls_track);
} threads SEC(".maps");

struct rls_control control = {};

static __always_inline struct rls_track *track_of(struct task_struct *task)
{
	/* A task without any storage is the rule: do not even call the helper for it. */
	if (!task->bpf_storage)
		return 0;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

static void count_loss(__u32 kind, __u64 now_ns)
{
	struct rls_loss *lost = bpf_map_lookup_elem(&loss, &kind);

	if (!lost)
		return;
	if (lost->count++ == 0)
		lost->first_ns = now_ns;
}

static __always_inline __u8 off_state_of(unsigned int state)
{
	if (state == 0)
		return RLS_OFF_RUNNABLE;
	if (state & TASK_DEAD)
		return RLS_OFF_DEAD;
	if ((state & (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)) == TASK_UNINTERRUPTIBLE)
		return RLS_OFF_BLOCKED;
	return RLS_OFF_SLEEPING;
}

/* The pid of `task` in the recorder's pid namespace; 0 where it has none there. */
static __always_inline __u32 pid_seen_by_recorder(struct task_struct *task)
{
	/* A copy: 6.1 allows no computed offset on a pointer that the verifier knows. */
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = control.recorder_ns_level;
	int nr = 0;

	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	/* numbers[] has as many entries as the namespace is deep: no constant index. */
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (const char *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return nr;
}

/* off_reason: of the state that it entered the trace in; 0: not known. */
static __always_inline void announce(struct task_struct *task, struct rls_track *track,
				     __u64 now_ns, __u64 off_reason)
{
	struct rls_rec_thread *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	/* No loss yet: tried again at every switch-out. One that never fits is reported as
	 * unmatched.
	 */
	if (!record)
		return;
	record->kind = RLS_REC_THREAD;
	record->entered = track->entered;
	record->off_state = track->off_state;
	record->thread_id = track->thread_id;
	record->ts_ns = track->entered_ns;
	record->born_ns = task->start_time;
	record->tid = track->tid;
	record->tgid = track->tgid;
	record->ns_tid = pid_seen_by_recorder(task);
	record->ns_tgid = pid_seen_by_recorder(task->group_leader);
	record->creator_thread_id = track->creator_thread_id;
	record->parent_tgid = task->real_parent->tgid;
	record->off_reason = off_reason;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), task->comm);
	track->announced = 1;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline void enter(struct task_struct *task, struct rls_track *track, __u8 entered,
				  __u8 off_state, __u64 off_reason, __u32 creator_thread_id)
{
	__u64 now_ns = bpf_ktime_get_ns();

	if (__sync_val_compare_and_swap(&track->claimed, 0, 1))
		return;
	track->entered = entered;
	track->off_state = off_state;
	track->entered_ns = now_ns;
	track->off_ns = now_ns;
	track->tid = task->pid;
	track->tgid = task->tgid;
	track->creator_thread_id = creator_thread_id;
	track->runtime_ns = task->se.sum_exec_runtime;
	/* Last: from here on the scheduler programs count this thread. */
	track->thread_id = (__u32)__sync_fetch_and_add(&control.last_thread_id, 1) + 1;
	announce(task, track, now_ns, off_reason);
}

#endif /* RLS_BTF_FILTER_H */
