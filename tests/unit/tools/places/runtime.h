/* Stands for a runtime that is linked into the program: symbols, no debug information. */
int cudaMalloc(int size);
