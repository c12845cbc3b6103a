/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Scheduling of a process tree, on kernels without BTF and for bcc: plain tracepoints,
 * whose field offsets the recorder reads from tracefs. Only tracepoint arguments and
 * helpers are used, never a kernel structure, so nobody's headers have to match.
 *
 * A thread is traced if and only if its tid (initial pid namespace) is in `threads`:
 * user space puts the threads of the targets there, `on_newtask` what they create.
 * One put there by user space has no thread_id until its first event.
 */
#ifndef RLS_BCC
#define RLS_NO_CORE
#include "os_types.h"

#include <bpf/bpf_helpers.h>
#endif

#include "track.h"
#include "tp_fields.h"
#include "tp_maps.h"

#define CLONE_THREAD_FLAG 0x00010000

/* prev_state as sched_switch prints it: R 0 (0x100 when preempted), S, D, T, t, X, Z, P, I */
#define REPORTED_D 0x02
#define REPORTED_X_OR_Z 0x30
#define REPORTED_MASK 0xff

RLS_INLINE rls_u32 read_u32(const void *from)
{
	rls_u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), from);
	return value;
}

RLS_INLINE rls_u64 read_u64(const void *from)
{
	rls_u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), from);
	return value;
}

RLS_INLINE void count_loss(rls_u32 kind, rls_u64 now_ns)
{
	struct rls_loss *lost = LOSS_OF(kind);

	if (!lost)
		return;
	if (lost->count++ == 0)
		lost->first_ns = now_ns;
}

RLS_INLINE rls_u32 next_thread_id(void)
{
	rls_u32 zero = 0;
	struct rls_control *counters = CONTROL(zero);

	return counters ? (rls_u32)__sync_fetch_and_add(&counters->last_thread_id, 1) + 1 : 0;
}

/* Threads that user space entered get their number at their first event. */
RLS_INLINE void number(struct rls_track *track)
{
	if (!track->thread_id)
		track->thread_id = next_thread_id();
}

RLS_INLINE void count_failed_update(void)
{
	rls_u32 zero = 0;
	struct rls_control *counters = CONTROL(zero);

	if (counters)
		__sync_fetch_and_add(&counters->failed_updates, 1);
}

RLS_INLINE void announce(struct rls_track *track, const void *comm, rls_u32 parent_tgid,
			 rls_u64 now_ns)
{
	struct rls_rec_thread *record = RESERVE(rls_rec_thread);

	/* No loss yet: tried again at every switch-out. */
	if (!record)
		return;
	record->kind = RLS_REC_THREAD;
	record->entered = track->entered;
	record->off_state = track->off_state;
	record->thread_id = track->thread_id;
	record->ts_ns = track->entered_ns;
	record->born_ns = track->entered == RLS_ENTERED_CREATED ? track->entered_ns : 0;
	record->tid = track->tid;
	record->tgid = track->tgid;
	record->ns_tid = 0;
	record->ns_tgid = 0;
	record->creator_thread_id = track->creator_thread_id;
	record->parent_tgid = parent_tgid;
	record->off_reason = 0;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), comm);
	track->announced = 1;
	SUBMIT(record);
}

RLS_INLINE rls_u8 off_state_of(rls_u64 reported)
{
	reported &= REPORTED_MASK;
	if (reported == 0)
		return RLS_OFF_RUNNABLE;
	if (reported & REPORTED_X_OR_Z)
		return RLS_OFF_DEAD;
	return reported & REPORTED_D ? RLS_OFF_BLOCKED : RLS_OFF_SLEEPING;
}

RLS_INLINE void leave_cpu(const char *event, rls_u32 tid, struct rls_track *track, rls_u64 now_ns)
{
	rls_u8 out_state = off_state_of(read_u64(event + OFFSET(switch_prev_state)));
	int missed_switch_in = track_missed_switch_in(track);
	struct rls_rec_cycle *record;

	if (missed_switch_in)
		track_switch_in(track, now_ns - 1);
	number(track);
	if (!track->announced)
		announce(track, event + OFFSET(switch_prev_comm), 0, now_ns);
	record = RESERVE(rls_rec_cycle);
	if (record) {
		track_close_cycle(track, now_ns, bpf_get_smp_processor_id(), out_state, 0,
				  missed_switch_in ? RLS_CYCLE_UNSEEN_SWITCH_IN : 0, record);
		/* When it was is out of reach here. */
		if (missed_switch_in)
			record->in_ns = 0;
		SUBMIT(record);
	} else {
		count_loss(RLS_REC_CYCLE, now_ns);
	}
	track_switch_out(track, now_ns, out_state);
	if (out_state == RLS_OFF_DEAD)
		THREAD_FORGET(tid);
}

PROGRAM("tp/sched/sched_switch")
int on_switch(void *ctx)
{
	const char *event = ctx;
	rls_u32 prev_tid = read_u32(event + OFFSET(switch_prev_pid));
	rls_u32 next_tid = read_u32(event + OFFSET(switch_next_pid));
	struct rls_track *prev = THREAD_OF(prev_tid);
	struct rls_track *next = THREAD_OF(next_tid);
	rls_u64 now_ns = 0;

	/* One instant for both: that is how one switch is distinguished from two. */
	if (prev) {
		now_ns = bpf_ktime_get_ns();
		leave_cpu(event, prev_tid, prev, now_ns);
	}
	if (next) {
		track_switch_in(next, now_ns ? now_ns : bpf_ktime_get_ns());
		next->cpu = bpf_get_smp_processor_id();
	}
	return 0;
}

/*
 * Whether an interrupt borrowed the current thread is not known without BTF, so
 * only the idle task (which wakes nobody by itself) is known for what it is.
 */
RLS_INLINE rls_s32 current_waker(void)
{
	return (rls_u32)bpf_get_current_pid_tgid() == 0 ? RLS_WAKER_INTERRUPT : RLS_WAKER_UNKNOWN;
}

PROGRAM("tp/sched/sched_waking")
int on_waking(void *ctx)
{
	const char *event = ctx;
	rls_u32 tid = read_u32(event + OFFSET(waking_pid));
	struct rls_track *track = THREAD_OF(tid);

	if (track)
		track_wakeup(track, bpf_ktime_get_ns(), current_waker());
	return 0;
}

PROGRAM("tp/sched/sched_wakeup_new")
int on_wakeup_new(void *ctx)
{
	const char *event = ctx;
	rls_u32 tid = read_u32(event + OFFSET(wakeup_new_pid));
	struct rls_track *track = THREAD_OF(tid);

	/* A new thread is woken by its creator, never by an interrupt. */
	if (track)
		track_wakeup(track, bpf_ktime_get_ns(), (rls_s32)track->creator_thread_id);
	return 0;
}

PROGRAM("tp/task/task_newtask")
int on_newtask(void *ctx)
{
	const char *event = ctx;
	rls_u64 pid_tgid = bpf_get_current_pid_tgid();
	rls_u32 creator_tid = (rls_u32)pid_tgid;
	rls_u32 creator_tgid = pid_tgid >> 32;
	struct rls_track *creator = THREAD_OF(creator_tid);
	struct rls_track track = {};
	rls_u32 tid;

	if (!creator)
		return 0;
	number(creator);
	tid = read_u32(event + OFFSET(newtask_pid));
	track.thread_id = next_thread_id();
	track.entered = RLS_ENTERED_CREATED;
	track.off_state = RLS_OFF_RUNNABLE;
	track.entered_ns = bpf_ktime_get_ns();
	track.off_ns = track.entered_ns;
	track.tid = tid;
	track.tgid =
		read_u64(event + OFFSET(newtask_flags)) & CLONE_THREAD_FLAG ? creator_tgid : tid;
	track.creator_thread_id = creator->thread_id;
	announce(&track, event + OFFSET(newtask_comm), creator_tgid, track.entered_ns);
	if (THREAD_ADD(tid, track))
		count_failed_update();
	return 0;
}

PROGRAM("tp/sched/sched_process_exec")
int on_exec(void *ctx)
{
	const char *event = ctx;
	rls_u32 tid = read_u32(event + OFFSET(exec_pid));
	rls_u32 old_tid = read_u32(event + OFFSET(exec_old_pid));
	struct rls_track *track = THREAD_OF(old_tid);
	struct rls_rec_exec *record;
	struct rls_track moved;
	rls_u64 now_ns = bpf_ktime_get_ns();

	if (!track)
		return 0;
	number(track);
	record = RESERVE(rls_rec_exec);
	if (record) {
		record->kind = RLS_REC_EXEC;
		record->args_len = 0;
		record->thread_id = track->thread_id;
		record->ts_ns = now_ns;
		record->tid = tid;
		record->old_tid = old_tid;
		record->ns_tgid = 0;
		record->args_total = 0;
		record->filename[0] = '\0';
		/* __data_loc: the low half is the offset of the string in the event */
		bpf_probe_read_kernel_str(
			record->filename, sizeof(record->filename),
			event + (read_u32(event + OFFSET(exec_filename)) & 0xffff));
		SUBMIT(record);
	} else {
		count_loss(RLS_REC_EXEC, now_ns);
	}
	if (tid == old_tid)
		return 0;
	/* A thread other than the leader called exec: it goes on under the leader's tid. */
	moved = *track;
	moved.tid = tid;
	if (THREAD_ADD(tid, moved))
		count_failed_update();
	THREAD_FORGET(old_tid);
	return 0;
}

PROGRAM("tp/sched/sched_process_exit")
int on_exit(void *ctx)
{
	rls_u64 pid_tgid = bpf_get_current_pid_tgid();
	rls_u32 tid = (rls_u32)pid_tgid;
	struct rls_track *track = THREAD_OF(tid);
	struct rls_rec_exit *record;
	rls_u64 now_ns = bpf_ktime_get_ns();

	if (!track)
		return 0;
	number(track);
	record = RESERVE(rls_rec_exit);
	if (!record) {
		count_loss(RLS_REC_EXIT, now_ns);
		return 0;
	}
	record->kind = RLS_REC_EXIT;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	record->status = RLS_UNKNOWN_EXIT_STATUS;
	record->tgid = pid_tgid >> 32;
	SUBMIT(record);
	return 0;
}

PROGRAM("tp/task/task_rename")
int on_rename(void *ctx)
{
	const char *event = ctx;
	rls_u32 tid = read_u32(event + OFFSET(rename_pid));
	struct rls_track *track = THREAD_OF(tid);
	struct rls_rec_name *record;
	rls_u64 now_ns = bpf_ktime_get_ns();

	if (!track)
		return 0;
	number(track);
	record = RESERVE(rls_rec_name);
	if (!record) {
		count_loss(RLS_REC_NAME, now_ns);
		return 0;
	}
	record->kind = RLS_REC_NAME;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), event + OFFSET(rename_comm));
	SUBMIT(record);
	return 0;
}

#ifndef RLS_BCC
char LICENSE[] SEC("license") = "Dual BSD/GPL";
#endif
