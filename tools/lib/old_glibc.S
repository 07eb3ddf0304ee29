/* Lets what is linked with a new glibc run with an old one. glibc gave functions new versions when it moved
 * them into libc.so (2.34: threads, dl; 2.33: stat), and when their errors changed (2.29: exp, log, pow). The old versions
 * are still there. The linker sends each use of a function, that of static libraries included, to the entry here
 * (-Wl,--wrap, see the list in tools/lib/meson.build), which goes on to the old version. x86-64 only. */

/* The function takes the same arguments in all versions. */
.macro OLD name, version=2.2.5
    .symver gm_old_\name, \name@GLIBC_\version
    ENTRY \name
    jmp gm_old_\name@PLT
.endm

.macro ENTRY name
    .globl __wrap_\name
    .hidden __wrap_\name
    .type __wrap_\name, @function
__wrap_\name:
.endm

/* The old function takes the version of struct stat, 1, first. */
.macro STAT name, old
    .symver gm_old_\name, \old@GLIBC_2.2.5
    ENTRY \name
    mov %rsi, %rdx
    mov %rdi, %rsi
    mov $1, %edi
    jmp gm_old_\name@PLT
.endm

    .text
OLD dlclose
OLD dlerror
OLD dlmopen, 2.3.4
OLD dlopen
OLD dlsym
OLD dlvsym
OLD exp
OLD log
OLD pow
OLD pthread_condattr_setpshared
OLD pthread_create
OLD pthread_detach
OLD pthread_getspecific
OLD pthread_join
OLD pthread_key_create
OLD pthread_key_delete
OLD pthread_kill
OLD pthread_mutex_trylock
OLD pthread_mutexattr_destroy
OLD pthread_mutexattr_init
OLD pthread_mutexattr_setpshared
OLD pthread_mutexattr_settype
OLD pthread_once
OLD pthread_rwlock_destroy
OLD pthread_rwlock_init
OLD pthread_rwlock_rdlock
OLD pthread_rwlock_timedrdlock
OLD pthread_rwlock_timedwrlock
OLD pthread_rwlock_tryrdlock
OLD pthread_rwlock_trywrlock
OLD pthread_rwlock_unlock
OLD pthread_rwlock_wrlock
OLD pthread_rwlockattr_destroy
OLD pthread_rwlockattr_init
OLD pthread_rwlockattr_setpshared
OLD pthread_setspecific
OLD pthread_spin_destroy
OLD pthread_spin_init
OLD pthread_spin_lock
OLD pthread_spin_trylock
OLD pthread_spin_unlock
OLD sem_destroy
OLD sem_init
OLD sem_post
OLD sem_timedwait
OLD sem_trywait
OLD sem_wait
OLD shm_open
OLD shm_unlink
STAT fstat, __fxstat
STAT fstat64, __fxstat64
STAT lstat64, __lxstat64
STAT stat, __xstat
STAT stat64, __xstat64

    .symver gm_old_fstatat64, __fxstatat64@GLIBC_2.4
ENTRY fstatat64
    mov %ecx, %r8d
    mov %rdx, %rcx
    mov %rsi, %rdx
    mov %edi, %esi
    mov $1, %edi
    jmp gm_old_fstatat64@PLT

    .section .note.GNU-stack, "", @progbits
