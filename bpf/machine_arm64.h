/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* See machine.h; here that of arm64. */
#ifndef RLS_MACHINE_ARM64_H
#define RLS_MACHINE_ARM64_H

/* A call pushes nothing. */
#define RETURN_SLOT_BYTES 0

#define TIF_32BIT 22 /* bit of thread_info.flags */
#define PSR_MODE_MASK 0xf
#define PSR_MODE_EL0T 0
#define LINK_REGISTER 30
#define CLONE_VFORK 0x4000

/* What a tick hands over: struct user_pt_regs of <asm/ptrace.h>. */
struct rls_registers {
	__u64 regs[31];
	__u64 sp;
	__u64 ip;
	__u64 pstate;
};

/* A 32-bit program, whose system calls have other numbers. */
static __always_inline bool is_32_bit(const struct task_struct *task)
{
	return task->thread_info.flags & 1UL << TIF_32BIT;
}

static __always_inline __u64 first_argument(const struct pt_regs *regs)
{
	return regs->orig_x0;
}

static __always_inline __u64 second_argument(const struct pt_regs *regs)
{
	return regs->regs[1];
}

static __always_inline __u64 third_argument(const struct pt_regs *regs)
{
	return regs->regs[2];
}

/* By the number of x86-64, from that of include/uapi/asm-generic/unistd.h; -1: in none. */
static __always_inline long system_call_of(const struct pt_regs *regs)
{
	int call = regs->syscallno;

	if (call < 0 || call >= SYS_FIRST_SAME)
		return call;
	switch (call) {
	case 4:
		return SYS_IO_GETEVENTS;
	case 22:
		return SYS_EPOLL_PWAIT;
	case 29:
		return SYS_IOCTL;
	case 32:
		return SYS_FLOCK;
	case 63:
		return SYS_READ;
	case 64:
		return SYS_WRITE;
	case 65:
		return SYS_READV;
	case 66:
		return SYS_WRITEV;
	case 67:
		return SYS_PREAD64;
	case 68:
		return SYS_PWRITE64;
	case 69:
		return SYS_PREADV;
	case 70:
		return SYS_PWRITEV;
	case 72:
		return SYS_PSELECT6;
	case 73:
		return SYS_PPOLL;
	case 81:
		return SYS_SYNC;
	case 82:
		return SYS_FSYNC;
	case 83:
		return SYS_FDATASYNC;
	case 84:
		return SYS_SYNC_FILE_RANGE;
	case 95:
		return SYS_WAITID;
	case 98:
		return SYS_FUTEX;
	case 101:
		return SYS_NANOSLEEP;
	case 115:
		return SYS_CLOCK_NANOSLEEP;
	case 133:
		return SYS_RT_SIGSUSPEND;
	case 137:
		return SYS_RT_SIGTIMEDWAIT;
	case 192:
		return SYS_SEMTIMEDOP;
	case 193:
		return SYS_SEMOP;
	case 202:
		return SYS_ACCEPT;
	case 203:
		return SYS_CONNECT;
	case 206:
		return SYS_SENDTO;
	case 207:
		return SYS_RECVFROM;
	case 211:
		return SYS_SENDMSG;
	case 212:
		return SYS_RECVMSG;
	case 220:
		/* clone: how a C library does vfork where the OS kernel has no call for it. */
		return first_argument(regs) & CLONE_VFORK ? SYS_VFORK : SYS_OTHER;
	case 242:
		return SYS_ACCEPT4;
	case 243:
		return SYS_RECVMMSG;
	case 260:
		return SYS_WAIT4;
	case 267:
		return SYS_SYNCFS;
	case 269:
		return SYS_SENDMMSG;
	case 286:
		return SYS_PREADV2;
	case 287:
		return SYS_PWRITEV2;
	}
	return SYS_OTHER;
}

static __always_inline __u64 code_address(const struct pt_regs *regs)
{
	return regs->pc;
}

static __always_inline __u64 stack_address(const struct pt_regs *regs)
{
	return regs->sp;
}

/* Where a function returns to that has not put it on the stack; else of a call that it made. */
static __always_inline __u64 link_of(const struct pt_regs *regs)
{
	return regs->regs[LINK_REGISTER];
}

static __always_inline bool is_in_user_space(const struct rls_registers *at_tick)
{
	return (at_tick->pstate & PSR_MODE_MASK) == PSR_MODE_EL0T;
}

static __always_inline __u64 link_at_tick(const struct rls_registers *at_tick)
{
	return at_tick->regs[LINK_REGISTER];
}

/* As it was when the thread last left a CPU: it is set once in its life. */
static __always_inline __u64 thread_pointer(const struct task_struct *task)
{
	return BPF_CORE_READ(task, thread.uw.tp_value);
}

/* Where the function returns to at whose entry a probe is. */
static __always_inline __u64 return_address(const struct pt_regs___user *at_entry)
{
	return at_entry->regs[LINK_REGISTER];
}

#endif /* RLS_MACHINE_ARM64_H */
