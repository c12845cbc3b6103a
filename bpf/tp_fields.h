/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The tracepoint fields that the flavour without BTF reads. Their offsets move
 * between kernels (newtask's did), so the recorder takes them from tracefs at run
 * time: X(name here, tracepoint group, tracepoint, field).
 */
#ifndef RLS_TP_FIELDS_H
#define RLS_TP_FIELDS_H

#include "records.h"

#define RLS_TP_FIELDS(X)                                      \
	X(switch_prev_comm, sched, sched_switch, prev_comm)   \
	X(switch_prev_pid, sched, sched_switch, prev_pid)     \
	X(switch_prev_state, sched, sched_switch, prev_state) \
	X(switch_next_pid, sched, sched_switch, next_pid)     \
	X(waking_pid, sched, sched_waking, pid)               \
	X(wakeup_new_pid, sched, sched_wakeup_new, pid)       \
	X(newtask_pid, task, task_newtask, pid)               \
	X(newtask_comm, task, task_newtask, comm)             \
	X(newtask_flags, task, task_newtask, clone_flags)     \
	X(exec_filename, sched, sched_process_exec, filename) \
	X(exec_pid, sched, sched_process_exec, pid)           \
	X(exec_old_pid, sched, sched_process_exec, old_pid)   \
	X(rename_pid, task, task_rename, pid)                 \
	X(rename_comm, task, task_rename, newcomm)

#define RLS_TP_OFFSET_MEMBER(name, group, event, field) rls_u32 name;
struct rls_tp_offsets {
	RLS_TP_FIELDS(RLS_TP_OFFSET_MEMBER)
};

#endif /* RLS_TP_FIELDS_H */
