/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The few OS kernel types the CO-RE programs touch, with only the fields they use:
 * the loader relocates every access against the BTF of the running kernel, so order
 * and size here do not matter. Names and types are those of the kernel.
 */
#ifndef RLS_OS_TYPES_H
#define RLS_OS_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_MMAPABLE = 1024,
};
enum { BPF_RB_NO_WAKEUP = 1 };

#ifndef RLS_NO_CORE
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
};

struct signal_struct {
	unsigned int flags;
	int group_exit_code;
};

struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	unsigned long flags;
	__u32 status; /* x86 */
	__u32 cpu;
};

struct thread_struct {
	unsigned long fsbase; /* x86 */
	struct {
		unsigned long tp_value;
	} uw; /* arm64 */
};

struct super_block {
	unsigned long s_magic;
};

struct pipe_inode_info {
	unsigned int head;
	unsigned int tail;
};

struct inode {
	unsigned short i_mode;
	struct pipe_inode_info *i_pipe;
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int on_cpu;
	int prio;
	struct sched_entity se;
	bool throttled; /* since 6.18 */
	struct mm_struct *mm;
	int exit_code;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct files_struct *files;
	struct pid *thread_pid;
	__u64 start_time;
	char comm[16];
	struct signal_struct *signal;
	struct bpf_local_storage *bpf_storage;
	struct thread_struct thread;
};

struct sk_buff_head {
	__u32 qlen;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
};

struct unix_sock {
	struct sock *peer;
};

struct linux_binprm {
	const char *filename;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* Each field is of one machine, but for sp: see machine.h. */
struct pt_regs {
	unsigned long si; /* x86 */
	unsigned long di;
	unsigned long dx;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
	__u64 regs[31]; /* arm64 */
	__u64 pc;
	__u64 orig_x0;
	__s32 syscallno;
};

/* The context of a uprobe program: the registers of the interrupted code. */
struct pt_regs___user {
	unsigned long sp;
	__u64 regs[31]; /* arm64 */
};

#pragma clang attribute pop
#endif /* RLS_NO_CORE */

#endif /* RLS_OS_TYPES_H */
