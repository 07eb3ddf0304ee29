/* An empty library that has the name of a message passing library. */
int gpumem_test_mpi(void);
int gpumem_test_mpi(void) { return 0; }
