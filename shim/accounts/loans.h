/* Kept memory as a loan between the processes of one user that run under gpumem: whoever finds no memory on a device
 * asks, and those that keep freed blocks there (lenders) release them.
 *
 * They share a file in /dev/shm that only this user can read and write. A lender has a place in it until it ends, by
 * whatever way. A question raises the number of the device's hash and wakes all lenders. Each lender releases what it
 * can without a wait, and answers with the number. Nobody waits longer than GM_LOANS_PATIENCE_NS. Without the file
 * nobody lends to others, and nothing else changes.
 *
 * All functions may be called by many threads at once, with no lock held. */
#ifndef GM_ACCOUNTS_LOANS_H
#define GM_ACCOUNTS_LOANS_H

#include "shim/base/base.h"

#define GM_LOANS_PATIENCE_NS 1000000000ull

/* Asks the lenders of a device of this process to release memory, and waits for their answers. True: one released some.
 */
bool gm_loans_ask(int device);

/* ---- for a lender: one thread of the process */

/* Takes a place. False: there is no file, or no place left. */
bool gm_loans_join(void);
/* The process keeps memory on this device from now on, too. */
void gm_loans_lend(int device);
/* Sleeps until somebody asks, or `ns` have passed. */
void gm_loans_sleep(uint64_t ns);
/* Somebody asked for memory of such a device, and has no answer. */
bool gm_loans_asked(void);
/* Answers all questions so far: so many bytes were released. */
void gm_loans_answer(uint64_t released);
/* Lends no more. */
void gm_loans_leave(void);
/* In the child of a fork, which has no place. */
void gm_loans_after_fork(void);

#endif
