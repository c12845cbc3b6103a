/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The life of traced processes and threads, with BTF: creation, programs, names, ends.
 */
#ifndef RLS_BTF_PROCESS_H
#define RLS_BTF_PROCESS_H

#include "btf_filter.h"

#define SIGNAL_GROUP_EXIT 0x00000004 /* signal_struct.flags */

/*
 * task_newtask, not sched_process_fork: it is traced for every clone, also for the
 * workers of io_uring, and the plain tracepoint of the other flavour tells a thread
 * from a process only here.
 */
SEC("tp_btf/task_newtask")
int BPF_PROG(on_newtask, struct task_struct *task, __u64 clone_flags)
{
	struct task_struct *creator = bpf_get_current_task_btf();
	struct rls_track *parent = track_of(creator);
	struct rls_track *track;

	if (!parent)
		return 0;
	track = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* Creating fails also where the walk is just creating the same storage. */
	if (!track)
		track = track_of(task);
	if (!track) {
		__sync_fetch_and_add(&control.failed_updates, 1);
		return 0;
	}
	enter(task, track, RLS_ENTERED_CREATED, RLS_OFF_RUNNABLE, 0, parent->thread_id);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct rls_track *track = track_of(task);
	struct rls_rec_exec *record;
	unsigned long start, bytes;
	__u64 now_ns;
	__u32 used;

	if (!track || !track->thread_id)
		return 0;
	now_ns = bpf_ktime_get_ns();
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_EXEC, now_ns);
		return 0;
	}
	record->kind = RLS_REC_EXEC;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	record->tid = task->pid;
	record->old_tid = old_pid;
	record->ns_tgid = 0;
	record->filename[0] = '\0';
	bpf_probe_read_kernel_str(record->filename, sizeof(record->filename), bprm->filename);
	start = task->mm->arg_start;
	bytes = task->mm->arg_end - start;
	used = bytes < RLS_ARGS_LEN ? bytes : RLS_ARGS_LEN;
	/* Just written by the kernel, so the pages are there; if not, say so. */
	if (bpf_probe_read_user(record->args, used, (const void *)start))
		used = 0;
	record->args_len = used;
	record->args_total = bytes;
	track->tid = task->pid;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct rls_track *track = track_of(task);
	struct signal_struct *signal = task->signal;
	struct rls_rec_exit *record;
	__u64 now_ns;

	if (!track || !track->thread_id)
		return 0;
	now_ns = bpf_ktime_get_ns();
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_EXIT, now_ns);
		return 0;
	}
	record->kind = RLS_REC_EXIT;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	/* As wait(2) decides it: a group exit overrules what the thread said. */
	record->status =
		signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code : task->exit_code;
	record->tgid = task->tgid;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* How many bytes of a name are the first of a text, its NUL included where it has one in both. */
static __always_inline int common_bytes(const char *text, const char *name)
{
	int i;

	for (i = 0; i < RLS_COMM_LEN - 1; i++) {
		if (text[i] != name[i])
			return i;
		if (!name[i])
			return RLS_COMM_LEN - 1;
	}
	return i;
}

/*
 * A name has 15 bytes. Programs that tell more of what they do (setproctitle) write it over their
 * arguments first, and then rename the thread. Where another thread has written there meanwhile,
 * the name is all that is known.
 */
static __always_inline void note_title(__u32 thread_id, __u64 now_ns, const char *name)
{
	struct task_struct *task = bpf_get_current_task_btf();
	char title[RLS_TITLE_LEN];
	struct rls_rec_title *record;
	long bytes;
	int same;

	if (!task->mm)
		return;
	bytes = bpf_probe_read_user_str(title, sizeof(title), (const void *)task->mm->arg_start);
	if (bytes <= 1 || bytes > RLS_TITLE_LEN)
		return;
	same = common_bytes(title, name);
	if (same < RLS_TITLE_HEAD)
		return;
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_TITLE, now_ns);
		return;
	}
	record->kind = RLS_REC_TITLE;
	record->bytes = bytes - 1;
	record->thread_id = thread_id;
	record->ts_ns = now_ns;
	__builtin_memcpy(record->title, title, sizeof(title));
	if (same < RLS_COMM_LEN - 1) {
		record->bytes = RLS_COMM_LEN - 1;
		__builtin_memcpy(record->title, name, RLS_COMM_LEN);
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct rls_track *track = track_of(task);
	struct rls_rec_name *record;
	char name[RLS_COMM_LEN] = {};
	__u64 now_ns;

	if (!track || !track->thread_id)
		return 0;
	now_ns = bpf_ktime_get_ns();
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record) {
		count_loss(RLS_REC_NAME, now_ns);
		return 0;
	}
	record->kind = RLS_REC_NAME;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->ts_ns = now_ns;
	bpf_probe_read_kernel_str(name, sizeof(name), comm);
	__builtin_memcpy(record->comm, name, sizeof(name));
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	note_title(track->thread_id, now_ns, name);
	return 0;
}

#endif /* RLS_BTF_PROCESS_H */
