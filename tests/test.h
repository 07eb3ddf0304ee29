/* What every unit test starts from: cmocka, and the headers that it wants before it. */
#ifndef GM_TEST_H
#define GM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants those above first */
#include <cmocka.h>

#endif
