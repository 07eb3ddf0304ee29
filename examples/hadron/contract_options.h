/* Options of contractions, as contract_main.c takes and prints them. */
#ifndef HADRON_CONTRACT_OPTIONS_H
#define HADRON_CONTRACT_OPTIONS_H

#include "examples/hadron/contract.h"

/* By value of the option; ended by NULL. */
extern const char *const distribution_names[], *const system_names[], *const mapping_names[], *const product_names[],
                                                                                                  *const host_names[];

/* Ends the program for --help and for wrong usage. *header: whether the CSV's head is printed. */
struct contract_options contract_parse(int argc, char **argv, bool *header);

#endif
