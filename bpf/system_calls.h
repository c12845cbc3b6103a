/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * System calls by the numbers that records name them with: those of x86-64, on every machine
 * (arch/x86/entry/syscalls/syscall_64.tbl).
 */
#ifndef RLS_SYSTEM_CALLS_H
#define RLS_SYSTEM_CALLS_H

enum {
	SYS_READ = 0,
	SYS_WRITE = 1,
	SYS_POLL = 7,
	SYS_IOCTL = 16,
	SYS_PREAD64 = 17,
	SYS_PWRITE64 = 18,
	SYS_READV = 19,
	SYS_WRITEV = 20,
	SYS_SELECT = 23,
	SYS_NANOSLEEP = 35,
	SYS_CONNECT = 42,
	SYS_ACCEPT = 43,
	SYS_SENDTO = 44,
	SYS_RECVFROM = 45,
	SYS_SENDMSG = 46,
	SYS_RECVMSG = 47,
	SYS_VFORK = 58,
	SYS_WAIT4 = 61,
	SYS_SEMOP = 65,
	SYS_FLOCK = 73,
	SYS_FSYNC = 74,
	SYS_FDATASYNC = 75,
	SYS_RT_SIGTIMEDWAIT = 128,
	SYS_RT_SIGSUSPEND = 130,
	SYS_SYNC = 162,
	SYS_FUTEX = 202,
	SYS_IO_GETEVENTS = 208,
	SYS_SEMTIMEDOP = 220,
	SYS_CLOCK_NANOSLEEP = 230,
	SYS_EPOLL_WAIT = 232,
	SYS_WAITID = 247,
	SYS_PSELECT6 = 270,
	SYS_PPOLL = 271,
	SYS_SYNC_FILE_RANGE = 277,
	SYS_EPOLL_PWAIT = 281,
	SYS_ACCEPT4 = 288,
	SYS_PREADV = 295,
	SYS_PWRITEV = 296,
	SYS_RECVMMSG = 299,
	SYS_SYNCFS = 306,
	SYS_SENDMMSG = 307,
	SYS_PREADV2 = 327,
	SYS_PWRITEV2 = 328,
	SYS_FIRST_SAME = 424, /* from here on every machine has the same numbers */
	SYS_FUTEX_WAIT = 455,
	SYS_OTHER = 0x3fff, /* one that nobody asks about */
};

#endif /* RLS_SYSTEM_CALLS_H */
