/* Entries that C cannot express. Each must pass all arguments unchanged to the function that it jumps to.
 *
 * dlsym and dlvsym: glibc finds the calling library by the return address, so a look-up that gpumem does not answer
 * must leave by a jump with the original stack. The C side gets the arguments, a slot and the caller. It returns 1
 * when it answered (result in the slot), 0 to jump to the next function in line.
 *
 * Entries of the driver's calls: one for each row of shim/driver/calls.h, exported under its name. Those of hooks
 * exist for each way of look-up; each notes the way for the coverage report and jumps to the hook. The others jump to
 * the driver's function. Before that, an entry whose role has to look (gm_watch in shim/driver/in_flight.h) passes its
 * number and arguments to gm_called, and jumps to the address that this returns.
 *
 * Entries of unknown functions: each has a number, and looks like an entry of role NOTICES. */
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

#define LOOKS_BLIND   (CLOSED | CHECKS)
#define LOOKS_WAITS   (CLOSED | CHECKS | GUARDS)
#define LOOKS_SUBMITS (CLOSED | CHECKS | GUARDS | HANDOVER | CAPTURES | OPEN)
#define LOOKS_NOTICES (CLOSED | CHECKS | GUARDS | HANDOVER | PENDING)

#define ENTRY_WAY_SYMBOL   0
#define ENTRY_WAY_DLSYM    1
#define ENTRY_WAY_RESOLVER 2
#define ENTRY_WAY_AUDIT    3

        .text

#if defined(__x86_64__)

#define FUNCTION(name, visibility)                                                                           \
        .globl name; visibility name; .type name, @function; .p2align 4;                                     \
        name: .cfi_startproc; endbr64

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


#define ENTRY(name, hook, visibility, way)                                                                  \
        FUNCTION(name, visibility);                                                                          \
        mov gm_mine@gottpoff(%rip), %r11;                                                                    \
        movl $way, %fs:(%r11);                                                                              \
        testl $CHECKS, gm_watch(%rip); jne 1f;                                                               \
        jmp hook;                                                                                            \
        1: mov $number, %r11d; jmp gm_call;                                                                    \
        .cfi_endproc; .size name, . - name

/* Goes on after the look, or does not look. */
#define GO   jmp *(gm_targets + 8 * number)(%rip)
#define LOOK mov $number, %r11d; jmp gm_call

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
#define STUB_SUBMITS_STREAM(stream, looks)                                                                   \
        TEST(looks); jne 1f; IS_PER_THREAD_##stream; je 3f; 2: GO;                                   \
        3: TEST(PER_THREAD); je 2b; 1: LOOK

#define COMMON_CALL                                                                                          \
        push %r9; push %r8; push %rcx; push %rdx; push %rsi; push %rdi;                                      \
        .cfi_adjust_cfa_offset 48;                                                                           \
        sub $40, %rsp; .cfi_adjust_cfa_offset 40;                                                            \
        movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                                        \
        mov %r11d, %edi; lea 40(%rsp), %rsi; lea 96(%rsp), %rdx; mov 88(%rsp), %rcx;                         \
        call gm_called;                                                                                      \
        mov %rax, %r11;                                                                                      \
        movups (%rsp), %xmm0; movups 16(%rsp), %xmm1;                                                        \
        add $40, %rsp; .cfi_adjust_cfa_offset -40;                                                           \
        pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %r8; pop %r9;                                            \
        .cfi_adjust_cfa_offset -48;                                                                          \
        jmp *%r11

#define UNKNOWN_ENTRY endbr64; mov $unknown, %r11d; jmp gm_unknown
#define COMMON_UNKNOWN                                                                                       \
        TEST(LOOKS_NOTICES); jne 1f;                                                                         \
        lea gm_unknown_functions(%rip), %rax; jmp *(%rax, %r11, 8);                                          \
        1: add $number, %r11d; jmp gm_call

#elif defined(__aarch64__)

#define FUNCTION(name, visibility)                                                                           \
        .globl name; visibility name; .type name, %function; .p2align 4;                                     \
        name: .cfi_startproc; hint #34

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


#define ENTRY(name, hook, visibility, way)                                                                  \
        FUNCTION(name, visibility);                                                                          \
        adrp x16, :gottprel:gm_mine; ldr x16, [x16, :gottprel_lo12:gm_mine];                                 \
        mrs x17, tpidr_el0; mov w9, way; str w9, [x17, x16];                                                \
        TEST(CHECKS); b.ne 1f;                                                                               \
        b hook;                                                                                              \
        1: mov w16, number; b gm_call;                                                                         \
        .cfi_endproc; .size name, . - name

/* Goes on after the look, or does not look. */
#define GO   adrp x16, gm_targets + 8 * number; add x16, x16, :lo12:gm_targets + 8 * number; ldr x16, [x16]; br x16
#define LOOK mov w16, number; b gm_call

#define IS_PER_THREAD_0 cmp x0, 2
#define IS_PER_THREAD_1 cmp x1, 2
#define IS_PER_THREAD_2 cmp x2, 2
#define IS_PER_THREAD_3 cmp x3, 2
#define IS_PER_THREAD_4 cmp x4, 2
#define IS_PER_THREAD_5 cmp x5, 2
#define IS_PER_THREAD_6 cmp x6, 2
#define IS_PER_THREAD_7 cmp x7, 2
#define IS_PER_THREAD_8 ldr x9, [sp]; cmp x9, 2
/* hStream of a CUlaunchConfig follows seven 32-bit members and padding. */
#define IS_PER_THREAD_CONFIG cbz x0, 2f; ldr x9, [x0, 32]; cmp x9, 2

#define TEST(bits)                                                                                           \
        adrp x16, gm_watch; ldr w16, [x16, :lo12:gm_watch];                                                  \
        mov w17, (bits) & 0xffff; movk w17, (bits) >> 16, lsl 16; tst w16, w17
#define STUB_SUBMITS_STREAM(stream, looks)                                                                   \
        TEST(looks); b.ne 1f; IS_PER_THREAD_##stream; b.eq 3f; 2: GO;                                \
        3: TEST(PER_THREAD); b.eq 2b; 1: LOOK

#define COMMON_CALL                                                                                          \
        stp x29, x30, [sp, #-96]!; .cfi_def_cfa_offset 96; .cfi_offset 29, -96; .cfi_offset 30, -88;         \
        mov x29, sp;                                                                                         \
        stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]; stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64];          \
        stp d0, d1, [sp, #80];                                                                               \
        mov w0, w16; add x1, sp, #16; add x2, sp, #96; mov x3, x30;                                          \
        bl gm_called;                                                                                        \
        mov x16, x0;                                                                                         \
        ldp d0, d1, [sp, #80];                                                                               \
        ldp x6, x7, [sp, #64]; ldp x4, x5, [sp, #48]; ldp x2, x3, [sp, #32]; ldp x0, x1, [sp, #16];          \
        ldp x29, x30, [sp], #96; .cfi_restore 30; .cfi_restore 29; .cfi_def_cfa_offset 0;                    \
        br x16

#define UNKNOWN_ENTRY hint #34; mov w9, unknown; b gm_unknown
#define COMMON_UNKNOWN                                                                                       \
        TEST(LOOKS_NOTICES); b.ne 1f;                                                                        \
        adrp x17, gm_unknown_functions; add x17, x17, :lo12:gm_unknown_functions;                            \
        ldr x16, [x17, x9, lsl #3]; br x16;                                                                  \
        1: mov w16, number; add w16, w16, w9; b gm_call

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
#define STUB(bits)          TEST(bits); IF_LOOKS; GO; 1: LOOK
#define STUB_BLIND(stream)   STUB(LOOKS_BLIND)
#define STUB_WAITS(stream)   STUB(LOOKS_WAITS)
#define STUB_NOTICES(stream) STUB(LOOKS_NOTICES)
#define STUB_SHARES(stream)  LOOK
#define STUB_SUBMITS(stream) STUB_SUBMITS_##stream
#define STUB_SUBMITS_0       STUB_SUBMITS_STREAM(0, LOOKS_SUBMITS)
#define STUB_SUBMITS_1       STUB_SUBMITS_STREAM(1, LOOKS_SUBMITS)
#define STUB_SUBMITS_2       STUB_SUBMITS_STREAM(2, LOOKS_SUBMITS)
#define STUB_SUBMITS_3       STUB_SUBMITS_STREAM(3, LOOKS_SUBMITS)
#define STUB_SUBMITS_4       STUB_SUBMITS_STREAM(4, LOOKS_SUBMITS)
#define STUB_SUBMITS_5       STUB_SUBMITS_STREAM(5, LOOKS_SUBMITS)
#define STUB_SUBMITS_6       STUB_SUBMITS_STREAM(6, LOOKS_SUBMITS)
#define STUB_SUBMITS_7       STUB_SUBMITS_STREAM(7, LOOKS_SUBMITS)
#define STUB_SUBMITS_8       STUB_SUBMITS_STREAM(8, LOOKS_SUBMITS)
#define STUB_SUBMITS_CONFIG  STUB_SUBMITS_STREAM(CONFIG, LOOKS_SUBMITS | LOOSE)
#define STUB_SUBMITS_DEFAULT STUB(LOOKS_SUBMITS)
#define STUB_SUBMITS_NONE    STUB(LOOKS_SUBMITS)

#define ALIAS(symbol) .globl gm_entry_##symbol; .hidden gm_entry_##symbol; .set gm_entry_##symbol, symbol
#define ENTRY_HOOK(symbol, twin, role, stream)                                                               \
        ENTRY(symbol, gm_hook_##symbol, .protected, ENTRY_WAY_SYMBOL); ALIAS(symbol);                                    \
        ENTRY(gm_dlsym_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_DLSYM);                                \
        ENTRY(gm_resolver_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_RESOLVER);                          \
        ENTRY(gm_audit_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_AUDIT);
#define ENTRY_JUMP(symbol, twin, role, stream) ENTRY_JUMP_##twin(symbol, role, stream)
#define ENTRY_JUMP_0(symbol, role, stream)                                                                   \
        FUNCTION(symbol, .protected); STUB_##role(stream);                                                   \
        .cfi_endproc; .size symbol, . - symbol; ALIAS(symbol);
#define ENTRY_JUMP_1(symbol, role, stream)                                                                   \
        FUNCTION(symbol, .protected); STUB_TWIN_##role(stream);                                              \
        .cfi_endproc; .size symbol, . - symbol; ALIAS(symbol);
#define STUB_TWIN_BLIND   STUB_BLIND
#define STUB_TWIN_WAITS   STUB_WAITS
#define STUB_TWIN_NOTICES STUB_NOTICES
#define STUB_TWIN_SHARES  STUB_SHARES
#define STUB_TWIN_SUBMITS(stream) STUB(LOOKS_SUBMITS | LOOSE | PER_THREAD)

#define CALL(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason)                   \
        ENTRY_##how(symbol, twin, role, stream)                                                              \
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

        .section .note.GNU-stack, "", %progbits
