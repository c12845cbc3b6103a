/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What is remembered of each traced thread between two scheduler events, and the
 * state machine that turns switch-out, wakeup and switch-in into one cycle record.
 *
 * Shared by every flavour of the sched programs; the collector writes and reads
 * the same struct where threads are kept in a hash.
 */
#ifndef RLS_TRACK_H
#define RLS_TRACK_H

#include "records.h"

struct rls_track {
	/*
	 * What every event touches: with the map pointer that the OS kernel puts before a task
	 * storage value, exactly one cache line, which is cold after each interval of Python.
	 */
	rls_u32 thread_id; /* 0: seeded, not entered yet */
	rls_u8 off_state;  /* what it did when it last left the CPU: enum rls_off_state */
	rls_u8 entered;	   /* RLS_ENTERED_* */
	rls_u8 announced;  /* its thread record is in the ring */
	rls_u8 dead;	   /* it has left the CPU for the last time */
	rls_u64 off_ns;	   /* when it last left the CPU; entered_ns before the first time */
	rls_u64 in_ns;	   /* when it last got a CPU; 0: not yet. It runs while in_ns >= off_ns */
	rls_u64 wake_ns;   /* last wakeup, whether it was asleep or not */
	rls_u64 cycle_wake_ns; /* the wakeup that led to in_ns; 0: none */
	rls_u64 runtime_ns;  /* its CPU time by the OS kernel's account, at off_ns; 0: not known */
	rls_s32 waker;	     /* of wake_ns */
	rls_s32 cycle_waker; /* of cycle_wake_ns */

	rls_u64 entered_ns;
	rls_u32 tid;
	rls_u32 tgid;
	rls_u32 creator_thread_id;
	rls_u32 cpu;	 /* the one it runs on, if it runs; else unspecified */
	rls_u32 claimed; /* whoever sets it enters the thread: creation and walk can meet */
	rls_u32 reserved;
	rls_u64 asked_ns; /* when it last asked for a message and none was there; 0: not known */
};
RLS_ASSERT_SIZE(rls_track, 96);

/* What the programs count for themselves, and what the recorder tells them; one instance. */
struct rls_control {
	rls_u64 last_thread_id;	   /* the last one given away */
	rls_u64 found;		   /* threads that were there already and have been entered */
	rls_u64 failed_updates;	   /* threads that could not be entered: no room in the filter */
	rls_u32 recorder_ns_level; /* depth of the pid namespace whose pids the user sees */
	rls_u32 reserved;
};
RLS_ASSERT_SIZE(rls_control, 32);

#define RLS_INLINE static inline __attribute__((always_inline))

/*
 * The open end of a thread, from what is remembered of it. `cpu` is where it runs, if
 * it does. The collector does this too, where threads are kept in a hash.
 */
RLS_INLINE void track_describe_open_end(const struct rls_track *track, rls_u32 cpu,
					struct rls_rec_close *record)
{
	int running = track->in_ns != 0 && track->in_ns >= track->off_ns;
	int woken = track->off_state != RLS_OFF_RUNNABLE && track->wake_ns > track->in_ns;

	record->kind = RLS_REC_CLOSE;
	record->off_state = track->off_state;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->off_ns = track->off_ns;
	record->in_ns = running ? track->in_ns : 0;
	record->wake_ns = running ? track->cycle_wake_ns : woken ? track->wake_ns : 0;
	record->waker = running ? track->cycle_waker : woken ? track->waker : RLS_WAKER_NONE;
	record->cpu = cpu;
}

#ifdef RLS_BPF_SIDE

/*
 * A wakeup belongs to this switch-in only if it came after the thread last got a
 * CPU. That is not "after it left it": a waker on another CPU can be traced between
 * the thread's decision to sleep and the trace of its switch-out. An older wakeup
 * cannot be it, and a newer one replaces it, because a sleeper comes back only by
 * being woken.
 */
RLS_INLINE void track_wakeup(struct rls_track *track, rls_u64 now_ns, rls_s32 waker)
{
	track->wake_ns = now_ns;
	track->waker = waker;
}

RLS_INLINE void track_switch_in(struct rls_track *track, rls_u64 now_ns)
{
	int first = track->in_ns == 0;
	int woken = track->wake_ns > track->in_ns;

	/* A preempted thread needs no wakeup; one it got while it ran says nothing. */
	if (track->off_state == RLS_OFF_RUNNABLE && !first)
		woken = 0;
	track->cycle_wake_ns = woken ? track->wake_ns : 0;
	track->cycle_waker = woken ? track->waker : RLS_WAKER_NONE;
	track->in_ns = now_ns;
}

/* Whether it leaves a CPU that, as far as was traced, it never got. */
RLS_INLINE int track_missed_switch_in(const struct rls_track *track)
{
	return track->in_ns < track->off_ns;
}

/*
 * Closes the cycle into `record`; before track_switch_out. Two functions, so that the
 * caller asks only once whether the ring had room: 6.1 forgets that a record it
 * reserved is no null pointer, and rejects a program that asks again.
 */
RLS_INLINE void track_close_cycle(const struct rls_track *track, rls_u64 now_ns, rls_u16 cpu,
				  rls_u8 out_state, rls_u64 out_reason, rls_u16 flags,
				  struct rls_rec_cycle *record)
{
	/* No switch-in since it left the CPU: it was running when it entered the trace. */
	int running_since_entry = track->in_ns == track->off_ns;

	record->kind = RLS_REC_CYCLE;
	record->off_state = track->off_state;
	record->out_state = out_state;
	record->thread_id = track->thread_id;
	record->off_ns = track->off_ns;
	record->wake_ns = running_since_entry ? 0 : track->cycle_wake_ns;
	record->in_ns = track->in_ns;
	record->out_ns = now_ns;
	record->waker = running_since_entry ? RLS_WAKER_NONE : track->cycle_waker;
	record->cpu = cpu;
	record->flags = flags;
	record->out_reason = out_reason;
}

RLS_INLINE void track_switch_out(struct rls_track *track, rls_u64 now_ns, rls_u8 out_state)
{
	track->off_ns = now_ns;
	track->off_state = out_state;
	track->dead = out_state == RLS_OFF_DEAD;
}

#endif /* RLS_BPF_SIDE */
#endif /* RLS_TRACK_H */
