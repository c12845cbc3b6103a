/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Why a thread leaves the CPU of its own accord, with BTF: the system call it is in, read
 * from the registers that it entered the OS kernel with. This costs nothing until a traced
 * thread goes to sleep, where probes on system calls would cost every one of them.
 */
#ifndef RLS_BTF_REASON_H
#define RLS_BTF_REASON_H

#include "btf_filter.h"
#include "machine.h"

/* task_struct.flags: threads that have never entered from user space. */
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000
#define PF_KTHREAD 0x00200000

/* super_block.s_magic */
#define ANON_INODE_FS_MAGIC 0x09041934

/* inode.i_mode */
#define S_IFMT 00170000
#define S_IFIFO 0010000
#define S_IFCHR 0020000
#define S_IFDIR 0040000
#define S_IFBLK 0060000
#define S_IFSOCK 0140000

/* Whether the first argument of a system call is the one file that it may wait for. */
static __always_inline bool takes_one_file(long call)
{
	return call == SYS_READ || call == SYS_WRITE || call == SYS_IOCTL ||
	       (call >= SYS_PREAD64 && call <= SYS_WRITEV) ||
	       (call >= SYS_CONNECT && call <= SYS_RECVMSG) || call == SYS_FSYNC ||
	       call == SYS_FDATASYNC || call == SYS_ACCEPT4 || call == SYS_PREADV ||
	       call == SYS_PWRITEV || call == SYS_RECVMMSG || call == SYS_SYNCFS ||
	       call == SYS_SENDMMSG || call == SYS_PREADV2 || call == SYS_PWRITEV2;
}

static __always_inline __u64 type_of_inode(const struct inode *inode)
{
	unsigned short type = BPF_CORE_READ(inode, i_mode) & S_IFMT;

	if (type == S_IFIFO)
		return RLS_FILE_PIPE;
	if (type == S_IFSOCK)
		return RLS_FILE_SOCKET;
	if (type == S_IFCHR)
		return RLS_FILE_DEVICE;
	if (type == S_IFDIR || type == S_IFBLK)
		return RLS_FILE_DISK;
	/* Files without a name have no type, or that of regular ones. */
	return BPF_CORE_READ(inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC ? RLS_FILE_EVENT
									  : RLS_FILE_DISK;
}

/*
 * The open file `fd` of `task`; null if there is none. What the verifier knows the type of is read
 * without a helper, which costs more than the reading.
 */
static __always_inline const struct inode *inode_of(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = 0;

	if (!table || fd >= table->max_fds)
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), &table->fd[fd]);
	return file ? BPF_CORE_READ(file, f_inode) : 0;
}

/*
 * Whether `task` is in a system call on a socket. What it sends to this machine is delivered before
 * the call returns, in a soft interrupt that borrows it.
 */
static __always_inline bool in_socket_call(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	const struct inode *inode;

	if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return false;
	if (is_32_bit(task) || !takes_one_file(system_call_of(regs)))
		return false;
	inode = inode_of(task, first_argument(regs));
	return inode && type_of_inode(inode) == RLS_FILE_SOCKET;
}

static __always_inline __u64 file_detail(struct task_struct *task, __u32 fd)
{
	const struct inode *inode = inode_of(task, fd);

	if (!inode)
		return RLS_REASON_FILE(RLS_FILE_UNKNOWN, 0);
	return RLS_REASON_FILE(type_of_inode(inode), BPF_CORE_READ(inode, i_ino));
}

/* poll(2): how many files, and what the only one is. Its memory is that of `current`. */
static __always_inline __u64 poll_detail(struct task_struct *task, const void *fds, __u32 count,
					 bool is_current)
{
	const struct inode *inode;
	__s32 fd = -1;

	if (count != 1 || !is_current || bpf_probe_read_user(&fd, sizeof(fd), fds) || fd < 0)
		return RLS_REASON_FILE(RLS_FILE_UNKNOWN, count);
	inode = inode_of(task, fd);
	return RLS_REASON_FILE(inode ? type_of_inode(inode) : RLS_FILE_UNKNOWN, count);
}

static __always_inline __u64 futex_detail(__u64 address, __u64 expected)
{
	return address | ((__u32)expected == RLS_MUTEX_WAITED_FOR ? RLS_REASON_MUTEX : 0);
}

/* RLS_REASON of a thread that goes to sleep now (is_current), or has done so. */
static __always_inline __u64 off_reason_of(struct task_struct *task, bool is_current)
{
	struct pt_regs *regs;
	__u64 first;
	long call;

	if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	if (is_32_bit(task))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	call = system_call_of(regs);
	/* Not in a system call: a page fault, or a stop on the way back to user space. */
	if (call < 0 || call > SYS_OTHER)
		return 0;
	first = first_argument(regs);
	if (call == SYS_FUTEX)
		return RLS_REASON(call, futex_detail(first, third_argument(regs)));
	if (call == SYS_FUTEX_WAIT)
		return RLS_REASON(call, futex_detail(first, second_argument(regs)));
	if (takes_one_file(call))
		return RLS_REASON(call, file_detail(task, first));
	if (call == SYS_POLL || call == SYS_PPOLL)
		return RLS_REASON(call, poll_detail(task, (const void *)first,
						    second_argument(regs), is_current));
	if (call == SYS_SELECT || call == SYS_PSELECT6)
		return RLS_REASON(call, RLS_REASON_FILE(RLS_FILE_UNKNOWN, first));
	return RLS_REASON(call, 0);
}

#endif /* RLS_BTF_REASON_H */
