/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Walks over all tasks, run by the recorder: one enters what exists at attach, one writes
 * down at the end what everybody was doing, and one says so while the recording goes on.
 */
#ifndef RLS_BTF_WALK_H
#define RLS_BTF_WALK_H

#include "btf_filter.h"
#include "btf_reason.h"

/*
 * Whether a task found at attach was on a CPU. Asked only once its switches are
 * being counted: if one came in between, that switch has already reported.
 */
static __always_inline void note_if_running(struct task_struct *task, struct rls_track *track)
{
	if (task->on_cpu && track->in_ns == 0 && track->off_ns == track->entered_ns)
		track->in_ns = track->entered_ns;
}

/*
 * Run over all tasks by the recorder: learns who the recorder is, then enters every
 * task that is marked, or whose group leader or parent is traced. Repeated until it
 * enters nobody new, because a child can stand before its parent in the walk.
 */
SEC("iter/task")
int enter_existing(struct bpf_iter__task *ctx)
{
	struct task_struct *recorder = bpf_get_current_task_btf();
	struct task_struct *task = ctx->task;
	struct rls_track *track;
	__u8 off_state;

	if (recorder->thread_pid)
		control.recorder_ns_level = recorder->thread_pid->level;
	if (!task || task->tgid == recorder->tgid)
		return 0;
	track = track_of(task);
	if (track && track->thread_id)
		return 0;
	if (!track && !track_of(task->group_leader) && !track_of(task->real_parent))
		return 0;
	track = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!track)
		track = track_of(task);
	if (!track) {
		__sync_fetch_and_add(&control.failed_updates, 1);
		return 0;
	}
	/* A zombie has nothing to tell, but may lead threads that live on: it stays a mark. */
	if (off_state_of(task->__state) == RLS_OFF_DEAD)
		return 0;
	off_state = off_state_of(task->__state);
	enter(task, track, RLS_ENTERED_FOUND, off_state,
	      off_state == RLS_OFF_RUNNABLE ? 0 : off_reason_of(task, false), 0);
	note_if_running(task, track);
	control.found++;
	return 0;
}

/*
 * What each thread is doing at the end. Run while the other programs are still
 * attached, or a thread that dies in between would leave no end: what they write of
 * the time after the end counts more than a close that is torn or too late.
 */
SEC("iter/task")
int close_open(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct rls_rec_close *record;
	struct rls_track *track;

	if (!task)
		return 0;
	track = track_of(task);
	if (!track || !track->thread_id || track->dead)
		return 0;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_CLOSE, bpf_ktime_get_ns());
		return 0;
	}
	track_describe_open_end(track, task->thread_info.cpu, record);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The same while the other programs go on, to whoever reads the iterator: what is shown
 * of a thread that sleeps, or runs, for long. It may be torn, as its times change meanwhile.
 */
SEC("iter/task")
int tell_open(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct rls_rec_close record = {};
	struct rls_track *track;

	if (!task)
		return 0;
	track = track_of(task);
	if (!track || !track->thread_id || track->dead)
		return 0;
	track_describe_open_end(track, task->thread_info.cpu, &record);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

#endif /* RLS_BTF_WALK_H */
