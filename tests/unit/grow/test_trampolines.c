/* Gates run out: from then on nothing is put off, and what waits is done before the function is known to anyone. The
 * driver is this program itself, its functions are bytes of it. */
#include "shim/grow/grow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRAMPOLINES = 1024, TRAMPOLINE_BYTES = 16 };

GM_INTERNAL extern const char gm_trampolines[];
const char gm_trampolines[TRAMPOLINES * TRAMPOLINE_BYTES] = {1};
int gm_trampolines_active;
struct gm_driver gm_drv;

static char functions[TRAMPOLINES + 2] = {1};
static unsigned entered;
static bool held_when_entered;

void gm_handover_driver_entered(void) {
    entered++;
    held_when_entered = gm_trampolines_hold();
}

void gm_handover_address_queried(void) {}

/* The last one only waits. */
void *gm_driver_symbol(const char *name) {
    return !strcmp(name, "cuStreamSynchronize") ? (void *)&functions[TRAMPOLINES + 1] : NULL;
}

static void each_function_has_one_gate(void **unused) {
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < TRAMPOLINES; i++)
            assert_ptr_equal(gm_trampoline_of(&functions[i]), gm_trampolines + (size_t)i * TRAMPOLINE_BYTES);
    assert_ptr_equal(gm_trampoline_of(&functions[TRAMPOLINES + 1]), &functions[TRAMPOLINES + 1]);
    assert_true(gm_trampolines_hold());
    assert_int_equal(entered, 0);
}

static void others_functions_need_none(void **unused) {
    assert_ptr_equal(gm_trampoline_of((void *)qsort), (void *)qsort);
    assert_true(gm_trampolines_hold());
}

static void one_more_ends_it(void **unused) {
    assert_ptr_equal(gm_trampoline_of(&functions[TRAMPOLINES]), &functions[TRAMPOLINES]);
    assert_false(gm_trampolines_hold());
    assert_int_equal(entered, 1);
    assert_false(held_when_entered); /* else something could be put off behind it */
    assert_ptr_equal(gm_trampoline_of(&functions[0]), gm_trampolines);
    assert_false(gm_trampolines_hold());
}

int main(void) {
    gm_drv.ctx_get_current = (__typeof__(gm_drv.ctx_get_current))(void *)functions;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_function_has_one_gate),
        cmocka_unit_test(others_functions_need_none),
        cmocka_unit_test(one_more_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
