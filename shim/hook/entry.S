/* Entries that C cannot express. Each must pass all arguments unchanged to the function that it jumps to.
 *
 * dlsym and dlvsym: glibc finds the calling library by the return address, so a look-up that gpumem does not answer
 * must leave by a jump with the original stack. The C side gets the arguments, a slot and the caller. It returns 1
 * when it answered (result in the slot), 0 to jump to the next function in line.
 *
 * Entries of the driver's calls: one for each row of shim/driver/calls.h, exported under its name. Those of hooks jump
 * to the hook. The others jump to the driver's function. Before that, an entry whose role has to look (gm_watch in
 * shim/driver/watch.h) passes its number and arguments to gm_called, which returns a function and where to jump: to
 * the function, or to gm_again.
 *
 * gm_again calls a function of the driver, whose address is in r11 or x16, with the same arguments. When the device is
 * out of memory, gm_call_trim releases what gpumem keeps, and the function is called once more. Entries of calls that
 * can need device memory (the column memory of calls.h) go this way while GM_WATCH_KEPT is set.
 *
 * gm_counted does the same for calls that submit work while GM_WATCH_SUSPENDS is set (shim/suspend/submissions.h). After
 * each call gm_call_counted says what the caller gets, or -1: the function is called once more.
 *
 * Libraries such as UCX watch memory by code that they write over the first bytes of a driver's function, after they
 * moved these instructions to where they can be called. They know few instructions. So all callers of a function pass
 * one entry, and each entry begins with enough of those that they know (PATCHABLE): 13 bytes on x86-64, 20 on aarch64.
 *
 * Entries of unknown functions: each has a number, and looks like an entry of role NOTICES that may need memory. */
#include "shim/driver/calls.h"

/* gm_watch as one word: the state, and from bit 16 on the flags. */
#define OPEN       0x000001
#define PENDING    0x000002
#define LOOSE      0x000004
#define CLOSED     0x010000
#define CHECKS     0x020000
#define HANDOVER   0x040000
#define CAPTURES   0x080000
#define PER_THREAD 0x100000
#define GUARDS     0x200000
#define KEPT       0x400000
#define SUSPENDS   0x800000

#define LOOKS_BLIND   (CLOSED | CHECKS)
#define LOOKS_WAITS   (CLOSED | CHECKS | GUARDS)
#define LOOKS_SUBMITS (CLOSED | CHECKS | GUARDS | HANDOVER | CAPTURES | OPEN | SUSPENDS)
#define LOOKS_NOTICES (CLOSED | CHECKS | GUARDS | HANDOVER | PENDING)
#define LOOKS_UNKNOWN (LOOKS_NOTICES | SUSPENDS)

#define OUT_OF_MEMORY 2 /* CUDA_ERROR_OUT_OF_MEMORY */

        .text

#if defined(__x86_64__)

#define FUNCTION(name, visibility)                                                                           \
        .globl name; visibility name; .type name, @function; .p2align 4;                                     \
        name: .cfi_startproc

/* mov $number, %eax; cmpl $0, word(%rip): 15 bytes. The assembler would choose a shorter cmpl, which UCX does not know.
 * No argument is in rax. The number stays there until gm_call. */
#define PATCHABLE(word) mov $number, %eax; .byte 0x81, 0x3d; .long word - . - 8; .long 0
#define PATCHABLE_REST

#define LOOKUP(name, route, next)                                                                            \
        FUNCTION(name, .hidden);                                                                             \
        push %rdi; .cfi_adjust_cfa_offset 8;                                                                 \
        push %rsi; .cfi_adjust_cfa_offset 8;                                                                 \
        push %rdx; .cfi_adjust_cfa_offset 8;                                                                 \
        sub $16, %rsp; .cfi_adjust_cfa_offset 16;                                                            \
        mov %rsp, %rcx;                                                                                      \
        mov 40(%rsp), %r8;                                                                                   \
        call route;                                                                                          \
        mov (%rsp), %rcx;                                                                                    \
        add $16, %rsp; .cfi_adjust_cfa_offset -16;                                                           \
        pop %rdx; .cfi_adjust_cfa_offset -8;                                                                 \
        pop %rsi; .cfi_adjust_cfa_offset -8;                                                                 \
        pop %rdi; .cfi_adjust_cfa_offset -8;                                                                 \
        test %eax, %eax; jz 1f;                                                                              \
        mov %rcx, %rax; ret;                                                                                 \
        1: mov next(%rip), %r11; jmp *%r11;                                                                  \
        .cfi_endproc; .size name, . - name


#define ENTRY(name, hook)                                                                                    \
        FUNCTION(name, .protected); PATCHABLE(gm_watch_checks); je hook;                                     \
        LOOK;                                                                                                \
        .cfi_endproc; .size name, . - name

/* Goes on after the look, does not look, or goes on by way of gm_again, unless a function of gpumem stands before the
 * driver's (gm_call_divert): that one makes the call again itself. */
#define GO    jmp *(gm_targets + 8 * number)(%rip)
#define LOOK  jmp gm_call
#define AGAIN mov (gm_targets + 8 * number)(%rip), %r11; cmp (gm_functions + 8 * number)(%rip), %r11;         \
        je gm_again; jmp *%r11

#define IS_PER_THREAD_0 cmpq $2, %rdi
#define IS_PER_THREAD_1 cmpq $2, %rsi
#define IS_PER_THREAD_2 cmpq $2, %rdx
#define IS_PER_THREAD_3 cmpq $2, %rcx
#define IS_PER_THREAD_4 cmpq $2, %r8
#define IS_PER_THREAD_5 cmpq $2, %r9
#define IS_PER_THREAD_6 cmpq $2, 8(%rsp)
#define IS_PER_THREAD_7 cmpq $2, 16(%rsp)
#define IS_PER_THREAD_8 cmpq $2, 24(%rsp)
/* hStream of a CUlaunchConfig follows seven 32-bit members and padding. */
#define IS_PER_THREAD_CONFIG test %rdi, %rdi; je 2f; cmpq $2, 32(%rdi)

#define TEST(bits) testl $(bits), gm_watch(%rip)
#define UNLESS_PER_THREAD(stream, ...) IS_PER_THREAD_##stream; je 3f; 2: __VA_ARGS__; 3: TEST(PER_THREAD); je 2b

#define COMMON_CALL                                                                                          \
        push %r9; push %r8; push %rcx; push %rdx; push %rsi; push %rdi;                                      \
        .cfi_adjust_cfa_offset 48;                                                                           \
        sub $40, %rsp; .cfi_adjust_cfa_offset 40;                                                            \
        movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                                        \
        mov %eax, %edi; lea 40(%rsp), %rsi; lea 96(%rsp), %rdx; mov 88(%rsp), %rcx;                         \
        call gm_called;                                                                                      \
        mov %rax, %r11; mov %rdx, %rax;                                                                      \
        movups (%rsp), %xmm0; movups 16(%rsp), %xmm1;                                                        \
        add $40, %rsp; .cfi_adjust_cfa_offset -40;                                                           \
        pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %r8; pop %r9;                                            \
        .cfi_adjust_cfa_offset -48;                                                                          \
        jmp *%rax

#define UNKNOWN_ENTRY mov $unknown, %eax; jmp gm_unknown
#define COMMON_UNKNOWN                                                                                       \
        TEST(LOOKS_UNKNOWN); jne 1f;                                                                         \
        lea gm_unknown_functions(%rip), %r11; mov (%r11, %rax, 8), %r11;                                     \
        TEST(KEPT); jne gm_again_unknown; jmp *%r11;                                                         \
        1: add $number, %eax; jmp gm_call

/* `words`: of the stack, an odd number. The second call is a jump with the stack of the first. */
#define COMMON_AGAIN(words)                                                                                  \
        push %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16;                                            \
        mov %rsp, %rbp; .cfi_def_cfa_register %rbp;                                                          \
        push %r11; push %r9; push %r8; push %rcx; push %rdx; push %rsi; push %rdi;                           \
        sub $32, %rsp; movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                         \
        .set word, words; .rept words; push 8 + 8 * word(%rbp); .set word, word - 1; .endr;                  \
        call *%r11;                                                                                          \
        cmp $OUT_OF_MEMORY, %eax; je 1f;                                                                     \
        .cfi_remember_state; leave; .cfi_def_cfa %rsp, 8; .cfi_restore %rbp; ret; .cfi_restore_state;        \
        1: call gm_call_trim;                                                                                \
        test %al, %al; jne 2f;                                                                               \
        mov $OUT_OF_MEMORY, %eax;                                                                            \
        .cfi_remember_state; leave; .cfi_def_cfa %rsp, 8; .cfi_restore %rbp; ret; .cfi_restore_state;        \
        2: lea -88(%rbp), %rsp; movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; add $32, %rsp;                 \
        pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %r8; pop %r9; pop %r11;                                  \
        pop %rbp; .cfi_def_cfa %rsp, 8; .cfi_restore %rbp;                                                   \
        jmp *%r11
/* The same stack of arguments, and the call is made as often as gm_call_counted says. */
#define COMMON_COUNTED(words)                                                                                \
        push %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16;                                            \
        mov %rsp, %rbp; .cfi_def_cfa_register %rbp;                                                          \
        push %r11; push %r9; push %r8; push %rcx; push %rdx; push %rsi; push %rdi;                           \
        sub $32, %rsp; movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                         \
        1: .set word, words; .rept words; push 8 + 8 * word(%rbp); .set word, word - 1; .endr;               \
        call *%r11;                                                                                          \
        mov %eax, %edi; call gm_call_counted;                                                                \
        cmp $-1, %eax; je 2f;                                                                                \
        .cfi_remember_state; leave; .cfi_def_cfa %rsp, 8; .cfi_restore %rbp; ret; .cfi_restore_state;        \
        2: lea -88(%rbp), %rsp; movups (%rsp), %xmm0; movups 16(%rsp), %xmm1;                                \
        mov -56(%rbp), %rdi; mov -48(%rbp), %rsi; mov -40(%rbp), %rdx; mov -32(%rbp), %rcx;                  \
        mov -24(%rbp), %r8; mov -16(%rbp), %r9; mov -8(%rbp), %r11; jmp 1b
#define ARGUMENT_WORDS 5  /* eleven arguments */
#define UNKNOWN_WORDS  17

#elif defined(__aarch64__)

#define FUNCTION(name, visibility)                                                                           \
        .globl name; visibility name; .type name, %function; .p2align 4;                                     \
        name: .cfi_startproc

/* mov, and with TEST behind it adrp, ldr, mov, movk: 20 bytes. The number stays in w9 until gm_call. */
#define PATCHABLE(word) mov w9, number
#define PATCHABLE_REST  .rept 4; mov w9, number; .endr /* without TEST */

#define LOOKUP(name, route, next)                                                                            \
        FUNCTION(name, .hidden);                                                                             \
        stp x29, x30, [sp, #-64]!; .cfi_def_cfa_offset 64; .cfi_offset 29, -64; .cfi_offset 30, -56;         \
        mov x29, sp;                                                                                         \
        stp x0, x1, [sp, #16];                                                                               \
        str x2, [sp, #32];                                                                                   \
        add x3, sp, #40;                                                                                     \
        mov x4, x30;                                                                                         \
        bl route;                                                                                            \
        mov w9, w0;                                                                                          \
        ldr x10, [sp, #40];                                                                                  \
        ldr x2, [sp, #32];                                                                                   \
        ldp x0, x1, [sp, #16];                                                                               \
        ldp x29, x30, [sp], #64; .cfi_restore 30; .cfi_restore 29; .cfi_def_cfa_offset 0;                    \
        cbz w9, 1f;                                                                                          \
        mov x0, x10; ret;                                                                                    \
        1: adrp x16, next; ldr x16, [x16, :lo12:next]; br x16;                                               \
        .cfi_endproc; .size name, . - name


#define ENTRY(name, hook)                                                                                    \
        FUNCTION(name, .protected); PATCHABLE(gm_watch_checks); TEST(CHECKS); b.ne 1f;                       \
        b hook;                                                                                              \
        1: LOOK;                                                                                             \
        .cfi_endproc; .size name, . - name

/* As above. */
#define LOAD(to, table) adrp to, table + 8 * number; add to, to, :lo12:table + 8 * number; ldr to, [to]
#define GO    LOAD(x16, gm_targets); br x16
#define LOOK  b gm_call
#define AGAIN LOAD(x16, gm_targets); LOAD(x17, gm_functions); cmp x16, x17; b.eq gm_again; br x16

#define IS_PER_THREAD_0 cmp x0, 2
#define IS_PER_THREAD_1 cmp x1, 2
#define IS_PER_THREAD_2 cmp x2, 2
#define IS_PER_THREAD_3 cmp x3, 2
#define IS_PER_THREAD_4 cmp x4, 2
#define IS_PER_THREAD_5 cmp x5, 2
#define IS_PER_THREAD_6 cmp x6, 2
#define IS_PER_THREAD_7 cmp x7, 2
#define IS_PER_THREAD_8 ldr x10, [sp]; cmp x10, 2
/* hStream of a CUlaunchConfig follows seven 32-bit members and padding. */
#define IS_PER_THREAD_CONFIG cbz x0, 2f; ldr x10, [x0, 32]; cmp x10, 2

#define TEST(bits)                                                                                           \
        adrp x16, gm_watch; ldr w16, [x16, :lo12:gm_watch];                                                  \
        mov w17, (bits) & 0xffff; movk w17, (bits) >> 16, lsl 16; tst w16, w17
#define UNLESS_PER_THREAD(stream, ...) IS_PER_THREAD_##stream; b.eq 3f; 2: __VA_ARGS__; 3: TEST(PER_THREAD); b.eq 2b

#define COMMON_CALL                                                                                          \
        stp x29, x30, [sp, #-96]!; .cfi_def_cfa_offset 96; .cfi_offset 29, -96; .cfi_offset 30, -88;         \
        mov x29, sp;                                                                                         \
        stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]; stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64];          \
        stp d0, d1, [sp, #80];                                                                               \
        mov w0, w9; add x1, sp, #16; add x2, sp, #96; mov x3, x30;                                          \
        bl gm_called;                                                                                        \
        mov x16, x0; mov x17, x1;                                                                            \
        ldp d0, d1, [sp, #80];                                                                               \
        ldp x6, x7, [sp, #64]; ldp x4, x5, [sp, #48]; ldp x2, x3, [sp, #32]; ldp x0, x1, [sp, #16];          \
        ldp x29, x30, [sp], #96; .cfi_restore 30; .cfi_restore 29; .cfi_def_cfa_offset 0;                    \
        br x17

#define UNKNOWN_ENTRY mov w9, unknown; b gm_unknown
#define COMMON_UNKNOWN                                                                                       \
        TEST(LOOKS_UNKNOWN); b.ne 1f;                                                                        \
        adrp x10, gm_unknown_functions; add x10, x10, :lo12:gm_unknown_functions; ldr x10, [x10, x9, lsl #3]; \
        TEST(KEPT); mov x16, x10; b.ne gm_again_unknown; br x16;                                             \
        1: mov w10, number; add w9, w9, w10; b gm_call

/* `words`: of the stack, an even number. The second call is a jump with the stack of the first. */
#define LEAVE_AGAIN                                                                                          \
        mov sp, x29; ldp x29, x30, [sp], #112; .cfi_def_cfa sp, 0; .cfi_restore 30; .cfi_restore 29
#define COMMON_AGAIN(words)                                                                                  \
        stp x29, x30, [sp, #-112]!; .cfi_def_cfa_offset 112; .cfi_offset 29, -112; .cfi_offset 30, -104;     \
        mov x29, sp; .cfi_def_cfa x29, 112;                                                                  \
        stp x0, x1, [x29, #16]; stp x2, x3, [x29, #32]; stp x4, x5, [x29, #48]; stp x6, x7, [x29, #64];      \
        stp d0, d1, [x29, #80]; str x16, [x29, #96];                                                         \
        sub sp, sp, #(8 * words);                                                                            \
        .set word, 0; .rept words / 2; ldp x9, x10, [x29, #(112 + 8 * word)]; stp x9, x10, [sp, #(8 * word)]; \
        .set word, word + 2; .endr;                                                                          \
        blr x16;                                                                                             \
        cmp w0, OUT_OF_MEMORY; b.eq 1f;                                                                      \
        .cfi_remember_state; LEAVE_AGAIN; ret; .cfi_restore_state;                                           \
        1: bl gm_call_trim;                                                                                  \
        tst w0, 0xff; b.ne 2f;                                                                               \
        mov w0, OUT_OF_MEMORY;                                                                               \
        .cfi_remember_state; LEAVE_AGAIN; ret; .cfi_restore_state;                                           \
        2: ldr x16, [x29, #96]; ldp d0, d1, [x29, #80];                                                      \
        ldp x6, x7, [x29, #64]; ldp x4, x5, [x29, #48]; ldp x2, x3, [x29, #32]; ldp x0, x1, [x29, #16];      \
        LEAVE_AGAIN; br x16
#define COMMON_COUNTED(words)                                                                                \
        stp x29, x30, [sp, #-112]!; .cfi_def_cfa_offset 112; .cfi_offset 29, -112; .cfi_offset 30, -104;     \
        mov x29, sp; .cfi_def_cfa x29, 112;                                                                  \
        stp x0, x1, [x29, #16]; stp x2, x3, [x29, #32]; stp x4, x5, [x29, #48]; stp x6, x7, [x29, #64];      \
        stp d0, d1, [x29, #80]; str x16, [x29, #96];                                                         \
        sub sp, sp, #(8 * words);                                                                            \
        1: .set word, 0; .rept words / 2; ldp x9, x10, [x29, #(112 + 8 * word)];                             \
        stp x9, x10, [sp, #(8 * word)]; .set word, word + 2; .endr;                                          \
        blr x16;                                                                                             \
        bl gm_call_counted;                                                                                  \
        cmn w0, 1; b.eq 2f;                                                                                  \
        .cfi_remember_state; LEAVE_AGAIN; ret; .cfi_restore_state;                                           \
        2: ldr x16, [x29, #96]; ldp d0, d1, [x29, #80];                                                      \
        ldp x6, x7, [x29, #64]; ldp x4, x5, [x29, #48]; ldp x2, x3, [x29, #32]; ldp x0, x1, [x29, #16];      \
        b 1b
#define ARGUMENT_WORDS 4  /* eleven arguments */
#define UNKNOWN_WORDS  16

#else
#error "gpumem's entries are written for x86-64 and aarch64"
#endif

        LOOKUP(gm_dlsym, gm_route_dlsym, gm_next_dlsym)
        LOOKUP(gm_dlvsym, gm_route_dlvsym, gm_next_dlvsym)

/* Under every version that glibc has: an interposer before gpumem may look up the next dlsym by version. */
#define VERSION(name, alias, entry, version)                                                                 \
        .globl alias; .type alias, %function; .set alias, entry; .symver alias, name##version, remove

        VERSION(dlsym, gm_dlsym_2_2_5, gm_dlsym, @GLIBC_2.2.5)
        VERSION(dlsym, gm_dlsym_2_17, gm_dlsym, @GLIBC_2.17)
        VERSION(dlsym, gm_dlsym_2_34, gm_dlsym, @@GLIBC_2.34)
        VERSION(dlvsym, gm_dlvsym_2_2_5, gm_dlvsym, @GLIBC_2.2.5)
        VERSION(dlvsym, gm_dlvsym_2_17, gm_dlvsym, @GLIBC_2.17)
        VERSION(dlvsym, gm_dlvsym_2_34, gm_dlvsym, @@GLIBC_2.34)

#if defined(__x86_64__)
#define IF_LOOKS jne 1f
#else
#define IF_LOOKS b.ne 1f
#endif
/* `goes`: on which streams the entry goes on. `memory` of calls.h: gm_again is the way while memory is kept. */
#define STUB_WAY(bits, goes, stream, ...)  TEST(bits); IF_LOOKS; goes(stream, __VA_ARGS__); 1: LOOK
#define STUB_NEVER(bits, goes, stream)     STUB_WAY(bits, goes, stream, GO)
#define STUB_ONCE(bits, goes, stream)      STUB_WAY(bits, goes, stream, GO)
#define STUB_CALL(bits, goes, stream)                                                                        \
        TEST((bits) | KEPT); IF_LOOKS; goes(stream, GO); 1: STUB_WAY(bits, goes, stream, AGAIN)
#define STUB_LAUNCH(bits, goes, stream)    STUB_CALL(bits, goes, stream)
#define ALWAYS(stream, ...)                __VA_ARGS__
#define STUB_BLIND(stream, memory)         STUB_##memory(LOOKS_BLIND, ALWAYS, stream)
#define STUB_WAITS(stream, memory)         STUB_##memory(LOOKS_WAITS, ALWAYS, stream)
#define STUB_NOTICES(stream, memory)       STUB_##memory(LOOKS_NOTICES, ALWAYS, stream)
#define STUB_SHARES(stream, memory)        PATCHABLE_REST; LOOK
#define STUB_SUBMITS(stream, memory)       STUB_SUBMITS_##stream(memory)
#define STUB_SUBMITS_0(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 0)
#define STUB_SUBMITS_1(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 1)
#define STUB_SUBMITS_2(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 2)
#define STUB_SUBMITS_3(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 3)
#define STUB_SUBMITS_4(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 4)
#define STUB_SUBMITS_5(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 5)
#define STUB_SUBMITS_6(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 6)
#define STUB_SUBMITS_7(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 7)
#define STUB_SUBMITS_8(memory)             STUB_##memory(LOOKS_SUBMITS, UNLESS_PER_THREAD, 8)
#define STUB_SUBMITS_CONFIG(memory)        STUB_##memory(LOOKS_SUBMITS | LOOSE, UNLESS_PER_THREAD, CONFIG)
#define STUB_SUBMITS_DEFAULT(memory)       STUB_##memory(LOOKS_SUBMITS, ALWAYS, DEFAULT)
#define STUB_SUBMITS_NONE(memory)          STUB_##memory(LOOKS_SUBMITS, ALWAYS, NONE)

#define ALIAS(symbol) .globl gm_entry_##symbol; .hidden gm_entry_##symbol; .set gm_entry_##symbol, symbol
#define ENTRY_HOOK(symbol, twin, role, stream, memory) ENTRY(symbol, gm_hook_##symbol); ALIAS(symbol);
#define ENTRY_JUMP(symbol, twin, role, stream, memory) ENTRY_JUMP_##twin(symbol, role, stream, memory)
#define ENTRY_JUMP_0(symbol, role, stream, memory)                                                           \
        FUNCTION(symbol, .protected); PATCHABLE(gm_watch); STUB_##role(stream, memory);                        \
        .cfi_endproc; .size symbol, . - symbol; ALIAS(symbol);
#define ENTRY_JUMP_1(symbol, role, stream, memory)                                                           \
        FUNCTION(symbol, .protected); PATCHABLE(gm_watch); STUB_TWIN_##role(stream, memory);                   \
        .cfi_endproc; .size symbol, . - symbol; ALIAS(symbol);
#define STUB_TWIN_BLIND   STUB_BLIND
#define STUB_TWIN_WAITS   STUB_WAITS
#define STUB_TWIN_NOTICES STUB_NOTICES
#define STUB_TWIN_SHARES  STUB_SHARES
#define STUB_TWIN_SUBMITS(stream, memory) STUB_##memory(LOOKS_SUBMITS | LOOSE | PER_THREAD, ALWAYS, stream)

#define CALL(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason)                   \
        ENTRY_##how(symbol, twin, role, stream, memory)                                                      \
        .set number, number + 1;

        .globl gm_entries_begin; .hidden gm_entries_begin; gm_entries_begin:
        .set number, 0
        GM_DRIVER_CALLS(CALL)

        .globl gm_unknown_entries; .hidden gm_unknown_entries; .type gm_unknown_entries, %object
        .p2align 4
gm_unknown_entries:
        .cfi_startproc
        .set unknown, 0
        .rept 1024
        .p2align 4
        UNKNOWN_ENTRY
        .set unknown, unknown + 1
        .endr
        .cfi_endproc
        .size gm_unknown_entries, . - gm_unknown_entries
        .globl gm_entries_end; .hidden gm_entries_end; gm_entries_end:

        FUNCTION(gm_unknown, .hidden)
        COMMON_UNKNOWN
        .cfi_endproc; .size gm_unknown, . - gm_unknown

        FUNCTION(gm_call, .hidden)
        COMMON_CALL
        .cfi_endproc; .size gm_call, . - gm_call

        FUNCTION(gm_again, .hidden)
        COMMON_AGAIN(ARGUMENT_WORDS)
        .cfi_endproc; .size gm_again, . - gm_again

        FUNCTION(gm_again_unknown, .hidden)
        COMMON_AGAIN(UNKNOWN_WORDS)
        .cfi_endproc; .size gm_again_unknown, . - gm_again_unknown

        FUNCTION(gm_counted, .hidden)
        COMMON_COUNTED(ARGUMENT_WORDS)
        .cfi_endproc; .size gm_counted, . - gm_counted

        FUNCTION(gm_counted_unknown, .hidden)
        COMMON_COUNTED(UNKNOWN_WORDS)
        .cfi_endproc; .size gm_counted_unknown, . - gm_counted_unknown

        .section .note.GNU-stack, "", %progbits
