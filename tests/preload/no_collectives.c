/* Stands for NCCL by its name. */
int no_collectives(void);
int no_collectives(void) { return 0; }
