/* Entries that C cannot express. Each must pass all arguments unchanged to the function that it jumps to.
 *
 * dlsym and dlvsym: glibc finds the calling library by the return address, so a look-up that gpumem does not answer
 * must leave by a jump with the original stack. The C side gets the arguments, a slot and the caller. It returns 1
 * when it answered (result in the slot), 0 to jump to the next function in line.
 *
 * Observers: note that a per-thread default stream is used and jump on. Used only where streams are observed.
 *
 * Trampolines (grow/trampolines.h): stand for functions that are not hooked, under GPUMEM_GROW=move. Each has a
 * number, calls gm_handover_driver_entered while gm_trampolines_active is set, and jumps to the function.
 *
 * Checks: stand for calls that GPUMEM_CHECK_ORDER observes, in that mode only. Each has a number, passes its
 * arguments to gm_check_called, and jumps to the address that this returns.
 *
 * Driver entries: one for each hooked symbol and way of look-up. Each notes the way for the coverage report and
 * jumps to the hook. */
#include "shim/hook/rows.h"
#include "shim/hook/check_rows.h"
#include "shim/hook/observer_rows.h"

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
        jmp hook;                                                                                            \
        .cfi_endproc; .size name, . - name

#define PER_THREAD 2
#define IS_ARGUMENT_0 cmpq $PER_THREAD, %rdi
#define IS_ARGUMENT_1 cmpq $PER_THREAD, %rsi
#define IS_ARGUMENT_2 cmpq $PER_THREAD, %rdx
#define IS_ARGUMENT_3 cmpq $PER_THREAD, %rcx
#define IS_ARGUMENT_4 cmpq $PER_THREAD, %r8
#define IS_ARGUMENT_5 cmpq $PER_THREAD, %r9
#define IS_ARGUMENT_7 cmpq $PER_THREAD, 16(%rsp)
#define IS_ARGUMENT_8 cmpq $PER_THREAD, 24(%rsp)
#define NOTE_TWIN(symbol)                                                                                    \
        FUNCTION(gm_observer_##symbol, .hidden);                                                                \
        lea gm_observed_##symbol(%rip), %r11;                                                                 \
        cmpb $0, gm_streams_per_thread(%rip); je gm_observer_first; jmp *(%r11);                                \
        .cfi_endproc; .size gm_observer_##symbol, . - gm_observer_##symbol
#define NOTE_IF(symbol, ...)                                                                                 \
        FUNCTION(gm_observer_##symbol, .hidden);                                                                \
        lea gm_observed_##symbol(%rip), %r11;                                                                 \
        __VA_ARGS__; jne 1f; cmpb $0, gm_streams_per_thread(%rip); je gm_observer_first;                        \
        1: jmp *(%r11);                                                                                      \
        .cfi_endproc; .size gm_observer_##symbol, . - gm_observer_##symbol
#define NOTE_EXPLICIT(symbol, argument) NOTE_IF(symbol, IS_ARGUMENT_##argument);
/* hStream of a CUlaunchConfig follows seven 32-bit members and padding. */
#define NOTE_CONFIG(symbol) NOTE_IF(symbol, cmpq $PER_THREAD, 32(%rdi));

/* Calls a function of gpumem before the program's call. Preserves the arguments and %r11. */
#define CALL_AND_KEEP(function)                                                                              \
        push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; push %r11;                           \
        .cfi_adjust_cfa_offset 56;                                                                           \
        sub $32, %rsp; .cfi_adjust_cfa_offset 32;                                                            \
        movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                                        \
        call function;                                                                                       \
        movups (%rsp), %xmm0; movups 16(%rsp), %xmm1;                                                        \
        add $32, %rsp; .cfi_adjust_cfa_offset -32;                                                           \
        pop %r11; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi;                                  \
        .cfi_adjust_cfa_offset -56
#define FIRST_OBSERVER CALL_AND_KEEP(gm_free_sync_per_thread); jmp *(%r11)

#define TRAMPOLINE(number) endbr64; mov number, %r11d; jmp gm_trampoline
#define TRAMPOLINE_NUMBER(number) $number
#define COMMON_TRAMPOLINE                                                                                          \
        cmpl $0, gm_trampolines_active(%rip); jne 1f;                                                                \
        0: lea gm_trampoline_functions(%rip), %rax; jmp *(%rax, %r11, 8);                                          \
        1: CALL_AND_KEEP(gm_handover_driver_entered);                                                                   \
        jmp 0b

#define CHECK_NUMBER mov $check, %r11d
#define GO_TO_CHECK  jmp gm_check
/* Pushes the arguments in registers so that they lie in their order. */
#define COMMON_CHECK                                                                                         \
        push %r9; push %r8; push %rcx; push %rdx; push %rsi; push %rdi;                                      \
        .cfi_adjust_cfa_offset 48;                                                                           \
        sub $40, %rsp; .cfi_adjust_cfa_offset 40;                                                            \
        movups %xmm0, (%rsp); movups %xmm1, 16(%rsp);                                                        \
        mov %r11d, %edi; lea 40(%rsp), %rsi; lea 96(%rsp), %rdx; mov 88(%rsp), %rcx;                         \
        call gm_check_called;                                                                                \
        mov %rax, %r11;                                                                                      \
        movups (%rsp), %xmm0; movups 16(%rsp), %xmm1;                                                        \
        add $40, %rsp; .cfi_adjust_cfa_offset -40;                                                           \
        pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %r8; pop %r9;                                            \
        .cfi_adjust_cfa_offset -48;                                                                          \
        jmp *%r11

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
        b hook;                                                                                              \
        .cfi_endproc; .size name, . - name

#define PER_THREAD 2
#define IS_ARGUMENT_0 cmp x0, PER_THREAD
#define IS_ARGUMENT_1 cmp x1, PER_THREAD
#define IS_ARGUMENT_2 cmp x2, PER_THREAD
#define IS_ARGUMENT_3 cmp x3, PER_THREAD
#define IS_ARGUMENT_4 cmp x4, PER_THREAD
#define IS_ARGUMENT_5 cmp x5, PER_THREAD
#define IS_ARGUMENT_7 cmp x7, PER_THREAD
#define IS_ARGUMENT_8 ldr x9, [sp]; cmp x9, PER_THREAD
#define OBSERVED(symbol) adrp x16, gm_observed_##symbol; add x16, x16, :lo12:gm_observed_##symbol
#define NOTE adrp x17, gm_streams_per_thread; ldrb w17, [x17, :lo12:gm_streams_per_thread]; cbz w17, gm_observer_first
#define NOTE_TWIN(symbol)                                                                                    \
        FUNCTION(gm_observer_##symbol, .hidden);                                                                \
        OBSERVED(symbol); NOTE; ldr x16, [x16]; br x16;                                                       \
        .cfi_endproc; .size gm_observer_##symbol, . - gm_observer_##symbol
#define NOTE_IF(symbol, ...)                                                                                 \
        FUNCTION(gm_observer_##symbol, .hidden);                                                                \
        OBSERVED(symbol); __VA_ARGS__; b.ne 1f; NOTE;                                                         \
        1: ldr x16, [x16]; br x16;                                                                           \
        .cfi_endproc; .size gm_observer_##symbol, . - gm_observer_##symbol
#define NOTE_EXPLICIT(symbol, argument) NOTE_IF(symbol, IS_ARGUMENT_##argument);
#define NOTE_CONFIG(symbol) NOTE_IF(symbol, ldr x9, [x0, #32]; cmp x9, PER_THREAD);

/* Calls a function of gpumem before the program's call. Preserves the arguments and x16. */
#define CALL_AND_KEEP(function)                                                                              \
        stp x29, x30, [sp, #-112]!; .cfi_def_cfa_offset 112; .cfi_offset 29, -112; .cfi_offset 30, -104;     \
        mov x29, sp;                                                                                         \
        stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]; stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64];          \
        stp d0, d1, [sp, #80]; str x16, [sp, #96];                                                           \
        bl function;                                                                                         \
        ldr x16, [sp, #96]; ldp d0, d1, [sp, #80];                                                           \
        ldp x6, x7, [sp, #64]; ldp x4, x5, [sp, #48]; ldp x2, x3, [sp, #32]; ldp x0, x1, [sp, #16];          \
        ldp x29, x30, [sp], #112; .cfi_restore 30; .cfi_restore 29; .cfi_def_cfa_offset 0
#define FIRST_OBSERVER CALL_AND_KEEP(gm_free_sync_per_thread); ldr x16, [x16]; br x16

#define TRAMPOLINE(number) hint #34; mov w16, number; b gm_trampoline
#define TRAMPOLINE_NUMBER(number) number
#define COMMON_TRAMPOLINE                                                                                          \
        adrp x17, gm_trampolines_active; ldr w17, [x17, :lo12:gm_trampolines_active]; cbnz w17, 1f;                          \
        0: adrp x17, gm_trampoline_functions; add x17, x17, :lo12:gm_trampoline_functions;                               \
        ldr x16, [x17, x16, lsl #3]; br x16;                                                                 \
        1: CALL_AND_KEEP(gm_handover_driver_entered);                                                                   \
        b 0b

#define CHECK_NUMBER mov w16, check
#define GO_TO_CHECK  b gm_check
#define COMMON_CHECK                                                                                         \
        stp x29, x30, [sp, #-96]!; .cfi_def_cfa_offset 96; .cfi_offset 29, -96; .cfi_offset 30, -88;         \
        mov x29, sp;                                                                                         \
        stp x0, x1, [sp, #16]; stp x2, x3, [sp, #32]; stp x4, x5, [sp, #48]; stp x6, x7, [sp, #64];          \
        stp d0, d1, [sp, #80];                                                                               \
        mov w0, w16; add x1, sp, #16; add x2, sp, #96; mov x3, x30;                                          \
        bl gm_check_called;                                                                                  \
        mov x16, x0;                                                                                         \
        ldp d0, d1, [sp, #80];                                                                               \
        ldp x6, x7, [sp, #64]; ldp x4, x5, [sp, #48]; ldp x2, x3, [sp, #32]; ldp x0, x1, [sp, #16];          \
        ldp x29, x30, [sp], #96; .cfi_restore 30; .cfi_restore 29; .cfi_def_cfa_offset 0;                    \
        br x16

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

#define ENTRIES(symbol, name, version, twin)                                                                 \
        ENTRY(symbol, gm_hook_##symbol, .protected, ENTRY_WAY_SYMBOL);                                            \
        ENTRY(gm_dlsym_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_DLSYM);                                     \
        ENTRY(gm_resolver_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_RESOLVER);                               \
        ENTRY(gm_audit_##symbol, gm_hook_##symbol, .hidden, ENTRY_WAY_AUDIT);

        GM_HOOK_ROWS(ENTRIES)

#define NOTE_EACH_TWIN(symbol) NOTE_TWIN(symbol);

        GM_OBSERVER_ROWS(NOTE_EXPLICIT, NOTE_CONFIG, NOTE_EACH_TWIN)

        FUNCTION(gm_observer_first, .hidden)
        FIRST_OBSERVER
        .cfi_endproc; .size gm_observer_first, . - gm_observer_first

        FUNCTION(gm_trampoline, .hidden)
        COMMON_TRAMPOLINE
        .cfi_endproc; .size gm_trampoline, . - gm_trampoline

        .globl gm_trampolines; .hidden gm_trampolines; .type gm_trampolines, %object
        .p2align 4
gm_trampolines:
        .cfi_startproc
        .set trampoline, 0
        .rept 1024
        .p2align 4
        TRAMPOLINE(TRAMPOLINE_NUMBER(trampoline))
        .set trampoline, trampoline + 1
        .endr
        .cfi_endproc
        .size gm_trampolines, . - gm_trampolines

        FUNCTION(gm_check, .hidden)
        COMMON_CHECK
        .cfi_endproc; .size gm_check, . - gm_check

#define CHECK(symbol, meaning, stream, twin)                                                                 \
        FUNCTION(gm_check_##symbol, .hidden);                                                                \
        CHECK_NUMBER; GO_TO_CHECK;                                                                          \
        .set check, check + 1;                                                                               \
        .cfi_endproc; .size gm_check_##symbol, . - gm_check_##symbol;
#define CHECK_BOTH(symbol, meaning, stream) CHECK(symbol, meaning, stream, 0) CHECK(symbol##_ptsz, meaning, stream, 1)
#define CHECK_FIXED(symbol, meaning)        CHECK(symbol, meaning, 0, 0) CHECK(symbol##_ptds, meaning, 0, 1)

        .set check, 0
        GM_CHECK_ROWS(CHECK, CHECK_BOTH, CHECK_FIXED)

        .section .note.GNU-stack, "", %progbits
