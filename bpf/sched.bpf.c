/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Scheduling of a process tree, on kernels with BTF (5.18 and newer).
 *
 * A thread is traced if and only if it has task storage in `threads`: user space
 * marks the group leaders of the targets (by pidfd, so that pid namespaces and pid
 * reuse do not matter), `enter_existing` walks from there over their threads and
 * descendants, and `on_newtask` hands it on to everything they create.
 */
#include "os_types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "track.h"

#define CLONE_THREAD 0x00010000
#define SIGNAL_GROUP_EXIT 0x00000004

/* task_struct.__state */
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_DEAD 0x0080
#define TASK_NOLOAD 0x0400 /* with D: an idle OS kernel thread */

/* task_struct.flags */
#define PF_KTHREAD 0x00200000

/* Traced threads: what is remembered of each. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rls_track);
} threads SEC(".maps");

/* Records on their way to the collector; its size is set before loading. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} ring SEC(".maps");

/* Per CPU: record kind -> records that found the ring full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RLS_REC_KINDS);
	__type(key, __u32);
	__type(value, struct rls_loss);
} loss SEC(".maps");

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

static __always_inline void announce(struct task_struct *task, struct rls_track *track,
				     __u64 now_ns)
{
	struct rls_rec_thread *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (!record) {
		count_loss(RLS_REC_THREAD, now_ns);
		return;
	}
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
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), task->comm);
	track->announced = 1;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

static __always_inline void enter(struct task_struct *task, struct rls_track *track, __u8 entered,
				  __u8 off_state, __u32 creator_thread_id)
{
	__u64 now_ns = bpf_ktime_get_ns();

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
	announce(task, track, now_ns);
}

/*
 * Whether a task found at attach was on a CPU. Asked only once its switches are
 * being counted: if one came in between, that switch has already told.
 */
static __always_inline void note_if_running(struct task_struct *task, struct rls_track *track)
{
	if (task->on_cpu && track->in_ns == 0 && track->off_ns == track->entered_ns)
		track->in_ns = track->entered_ns;
}

/* When it must have got the CPU, from the CPU time it has used since it last left one. */
static __always_inline __u64 in_ns_by_runtime(const struct rls_track *track, __u64 now_ns,
					      __u64 runtime_ns)
{
	__u64 in_ns = now_ns - (runtime_ns - track->runtime_ns);

	/* The two clocks differ a little; equal to off_ns would mean "since it entered". */
	return in_ns > track->off_ns ? in_ns : track->off_ns + 1;
}

static __always_inline void leave_cpu(struct task_struct *task, struct rls_track *track,
				      __u64 now_ns, __u8 out_state)
{
	__u64 runtime_ns = task->se.sum_exec_runtime;
	struct rls_rec_cycle *record;
	__u16 flags = 0;

	if (track_missed_switch_in(track)) {
		flags = RLS_CYCLE_UNSEEN_SWITCH_IN;
		track_switch_in(track, in_ns_by_runtime(track, now_ns, runtime_ns));
	}
	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (record) {
		track_close_cycle(track, now_ns, bpf_get_smp_processor_id(), out_state, flags,
				  record);
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		count_loss(RLS_REC_CYCLE, now_ns);
	}
	track_switch_out(track, now_ns, out_state);
	track->runtime_ns = runtime_ns;
	if (!track->announced)
		announce(task, track, now_ns);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct rls_track *out = track_of(prev);
	struct rls_track *in = track_of(next);
	__u64 now_ns = 0;

	if (out && out->thread_id) {
		now_ns = bpf_ktime_get_ns();
		leave_cpu(prev, out, now_ns, preempt ? RLS_OFF_RUNNABLE : off_state_of(prev_state));
	}
	if (in && in->thread_id)
		track_switch_in(in, now_ns ? now_ns : bpf_ktime_get_ns());
	return 0;
}

/*
 * Whether this code runs in an interrupt that borrowed `current`, told by the stack:
 * interrupts have their own, and `context` (the arguments of the tracepoint) lies on
 * the one in use. Except on x86, where an interrupt of user code starts on the task's
 * stack: then the registers saved there come from no system call (orig_ax is -1). The
 * price: a wakeup out of a page fault counts as an interrupt too. preempt_count would
 * tell it directly, but is out of reach on kernels built without KALLSYMS_ALL.
 */
static __always_inline bool in_interrupt(struct task_struct *current, const void *context)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(current);
	unsigned long stack = (unsigned long)current->stack;
	unsigned long here = (unsigned long)context;

	if (here < stack || here >= (unsigned long)regs)
		return true;
	if (current->flags & PF_KTHREAD)
		return false;
	return bpf_core_field_exists(regs->orig_ax) && (long)regs->orig_ax < 0;
}

/* The thread whose code is running now; an interrupt borrows whichever it hit. */
static __always_inline __s32 current_waker(const void *context)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct rls_track *track;

	if (current->pid == 0 || in_interrupt(current, context))
		return RLS_WAKER_INTERRUPT;
	track = track_of(current);
	return track && track->thread_id ? (__s32)track->thread_id : RLS_WAKER_OUTSIDE;
}

/*
 * sched_waking, not sched_wakeup: the latter is traced on the CPU that is going to
 * run the thread, from an interrupt or the idle task, when the two CPUs' caches are
 * apart or the other one idles. Only the former runs in the waker's own context.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct rls_track *track = track_of(task);

	if (track && track->thread_id)
		track_wakeup(track, bpf_ktime_get_ns(), current_waker(ctx));
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	struct rls_track *track = track_of(task);

	if (track && track->thread_id)
		track_wakeup(track, bpf_ktime_get_ns(), current_waker(ctx));
	return 0;
}

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
	if (!track) {
		__sync_fetch_and_add(&control.failed_updates, 1);
		return 0;
	}
	enter(task, track, RLS_ENTERED_CREATED, RLS_OFF_RUNNABLE, parent->thread_id);
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

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct rls_track *track = track_of(task);
	struct rls_rec_name *record;
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
	record->comm[0] = '\0';
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
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
	if (!track) {
		__sync_fetch_and_add(&control.failed_updates, 1);
		return 0;
	}
	enter(task, track, RLS_ENTERED_FOUND, off_state_of(task->__state), 0);
	note_if_running(task, track);
	control.found++;
	return 0;
}

/* Run after the other programs are detached: what each thread was doing at the end. */
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
	record->kind = RLS_REC_CLOSE;
	record->off_state = track->off_state;
	record->reserved = 0;
	record->thread_id = track->thread_id;
	record->off_ns = track->off_ns;
	record->in_ns = track->in_ns >= track->off_ns ? track->in_ns : 0;
	record->wake_ns = record->in_ns ? track->cycle_wake_ns
			  : track->off_state != RLS_OFF_RUNNABLE && track->wake_ns > track->in_ns
				  ? track->wake_ns
				  : 0;
	record->waker = record->in_ns ? track->cycle_waker : record->wake_ns ? track->waker : 0;
	record->cpu = task->thread_info.cpu;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
