/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* See machine.h; here that of x86-64. */
#ifndef RLS_MACHINE_X86_H
#define RLS_MACHINE_X86_H

/* A call pushes 8 bytes, which its return has popped when its probe runs. */
#define RETURN_SLOT_BYTES 8

#define TS_COMPAT 0x0002 /* thread_info.status: in a system call of a 32-bit program */

/* What a tick hands over: the registers as <asm/ptrace.h> orders them. */
struct rls_registers {
	__u64 others[16];
	__u64 ip;
	__u64 cs;
	__u64 flags;
	__u64 sp;
	__u64 ss;
};

/* In the system call of a 32-bit program, which has other numbers. */
static __always_inline bool is_32_bit(const struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

/* -1: in none. */
static __always_inline long system_call_of(const struct pt_regs *regs)
{
	return (long)regs->orig_ax;
}

static __always_inline __u64 first_argument(const struct pt_regs *regs)
{
	return regs->di;
}

static __always_inline __u64 second_argument(const struct pt_regs *regs)
{
	return regs->si;
}

static __always_inline __u64 third_argument(const struct pt_regs *regs)
{
	return regs->dx;
}

static __always_inline __u64 code_address(const struct pt_regs *regs)
{
	return regs->ip;
}

static __always_inline __u64 stack_address(const struct pt_regs *regs)
{
	return regs->sp;
}

/* Where a function returns to that has not put it on the stack; 0: there is no such thing. */
static __always_inline __u64 link_of(const struct pt_regs *regs)
{
	return 0;
}

static __always_inline bool is_in_user_space(const struct rls_registers *at_tick)
{
	return at_tick->cs & 3;
}

static __always_inline __u64 link_at_tick(const struct rls_registers *at_tick)
{
	return 0;
}

static __always_inline __u64 thread_pointer(const struct task_struct *task)
{
	return BPF_CORE_READ(task, thread.fsbase);
}

/* Where the function returns to at whose entry a probe is. */
static __always_inline __u64 return_address(const struct pt_regs___user *at_entry)
{
	__u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)at_entry->sp);
	return address;
}

#endif /* RLS_MACHINE_X86_H */
