/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Scheduling of a process tree, on kernels with BTF (5.18 and newer): switches and
 * wakeups here, the rest of the same object in the headers.
 */
#include "btf_filter.h"
#include "btf_others.h"
#include "btf_process.h"
#include "btf_reason.h"
#include "btf_timer.h"
#include "btf_walk.h"

/* When it must have got the CPU, from the CPU time it has used since it last left one. */
static __always_inline __u64 in_ns_by_runtime(const struct rls_track *track, __u64 now_ns,
					      __u64 runtime_ns)
{
	__u64 in_ns = now_ns - (runtime_ns - track->runtime_ns);

	/* A stay that a hypervisor stole as a whole has no CPU time, and still was one. */
	if (in_ns >= now_ns)
		in_ns = now_ns - 1;
	/* The two clocks differ a little; equal to off_ns would mean "since it entered". */
	return in_ns > track->off_ns ? in_ns : track->off_ns + 1;
}

static __always_inline void write_cycle(struct rls_track *track, __u64 now_ns, __u8 out_state,
					__u64 reason, __u16 flags)
{
	struct rls_rec_cycle *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);

	if (record) {
		track_close_cycle(track, now_ns, bpf_get_smp_processor_id(), out_state, reason,
				  flags, record);
		bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	} else {
		count_loss(RLS_REC_CYCLE, now_ns);
	}
}

static __always_inline void leave_cpu(struct task_struct *task, struct rls_track *track,
				      __u64 now_ns, __u8 out_state)
{
	__u64 runtime_ns = task->se.sum_exec_runtime;
	__u64 reason = 0;
	__u16 flags = 0;

	if (out_state == RLS_OFF_SLEEPING || out_state == RLS_OFF_BLOCKED)
		reason = off_reason_of(task, true);
	else if (out_state == RLS_OFF_RUNNABLE && waits_for_quota(task))
		write_quota(track, now_ns);
	if (track_missed_switch_in(track)) {
		flags = RLS_CYCLE_UNSEEN_SWITCH_IN;
		track_switch_in(track, in_ns_by_runtime(track, now_ns, runtime_ns));
	}
	write_cycle(track, now_ns, out_state, reason, flags);
	track_switch_out(track, now_ns, out_state);
	track->runtime_ns = runtime_ns;
	if (!track->announced)
		announce(task, track, now_ns, 0);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct rls_track *out = track_of(prev);
	struct rls_track *in = track_of(next);
	struct rls_other_runs *here;
	bool leaves = out && out->thread_id;
	bool comes = in && in->thread_id;
	__u64 now_ns;

	/* A CPU that idles before or after is nobody's loss: the rule for all that is not traced.
	 */
	if (!leaves && !comes && !next->pid)
		return 0;
	here = other_runs_here();
	if (!leaves && !comes && !(here && looks_at_others(here)))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (leaves)
		leave_cpu(prev, out, now_ns, preempt ? RLS_OFF_RUNNABLE : off_state_of(prev_state));
	else if (here && prev->pid)
		other_goes(here, prev, now_ns);
	if (comes)
		track_switch_in(in, now_ns);
	/* Where a CPU idled nobody waits. */
	if (here && !prev->pid)
		here->preempted = 0;
	else if (here && leaves && out->off_state == RLS_OFF_RUNNABLE)
		here->preempted++;
	if (here && (leaves || comes))
		here->open = here->preempted ? RLS_OPEN_SWITCHES_PREEMPTED : RLS_OPEN_SWITCHES;
	if (here && comes)
		write_other_runs(here, in, now_ns);
	else if (here && next->pid)
		other_comes(here, next, now_ns);
	return 0;
}

#define NAME_KSOFTIRQ 0x71726974666f736bULL /* "ksoftirq" */
#define NAME_KTIMERS 0x2f7372656d69746bULL  /* "ktimers/" */

/* Threads that do for a loaded CPU what its interrupts have left: ksoftirqd/0, ktimers/0. */
static __always_inline bool serves_interrupts(struct task_struct *thread)
{
	__u64 start = 0; /* little endian, as the processors that this is for */

	bpf_probe_read_kernel(&start, sizeof(start), thread->comm);
	return start == NAME_KSOFTIRQ || start == NAME_KTIMERS;
}

/*
 * Whether this code runs in an interrupt that borrowed `current`, recognised by the stack:
 * interrupts have their own, and `context` (the arguments of the tracepoint) lies on
 * the one in use. Except that an interrupt of user code starts on the task's stack on x86, and may
 * leave work to it on arm64: then the registers saved there come from no system call. The
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
		return serves_interrupts(current);
	return system_call_of(regs) < 0;
}

/*
 * Of an interrupt, which kind; page faults that wake count as devices, too. A traced thread that
 * was sending then is taken for the sender: the network stack delivers on its behalf. What a
 * network card brought in that instant would be taken for its, too.
 */
static __always_inline __s32 interrupt_waker(struct task_struct *current, struct rls_track *track)
{
	if (in_timer())
		return RLS_WAKER_TIMER;
	if (track && track->thread_id && in_socket_call(current))
		return (__s32)track->thread_id;
	return RLS_WAKER_DEVICE;
}

/* The thread whose code is running now; an interrupt borrows whichever it hit. */
static __always_inline __s32 current_waker(const void *context)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct rls_track *track = track_of(current);

	if (current->pid == 0 || in_interrupt(current, context))
		return interrupt_waker(current, track);
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
	__u64 now_ns;

	if (!track || !track->thread_id)
		return 0;
	now_ns = bpf_ktime_get_ns();
	track_wakeup(track, now_ns, current_waker(ctx));
	/* Where each task is reported, it is when it is about to leave the OS kernel. */
	if (!bpf_core_field_exists(task->throttled) && waits_for_quota(task))
		write_quota(track, now_ns);
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

char LICENSE[] SEC("license") = "Dual BSD/GPL";
