/* The two programs in one: the model of evictions, and contractions on a device. */
#ifndef HADRON_MAIN_H
#define HADRON_MAIN_H

int model_main(int argc, char **argv);
int contract_main(int argc, char **argv);

#endif
