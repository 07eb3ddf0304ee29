/* Beside old_glibc.S, for a program. */

/* Before 2.34 a program brings its own call of its constructors; the start code of a new glibc leaves that to the C
 * library and passes none, as the fourth argument. */
    .symver gm_old_libc_start_main, __libc_start_main@GLIBC_2.2.5
    .text
    .globl __wrap___libc_start_main
    .hidden __wrap___libc_start_main
    .type __wrap___libc_start_main, @function
__wrap___libc_start_main:
    lea construct(%rip), %rcx
    jmp gm_old_libc_start_main@PLT

/* (argc, argv, environment): so the constructors are called, too. */
construct:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    mov %edi, %r12d
    mov %rsi, %r13
    mov %rdx, %r14
    lea __init_array_start(%rip), %rbx
    lea __init_array_end(%rip), %rbp
1:  cmp %rbp, %rbx
    jae 2f
    mov %r12d, %edi
    mov %r13, %rsi
    mov %r14, %rdx
    call *(%rbx)
    add $8, %rbx
    jmp 1b
2:  pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret

    .section .note.GNU-stack, "", @progbits
