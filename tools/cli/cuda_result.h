/* Names of CUresult values. */
#ifndef GM_CUDA_RESULT_H
#define GM_CUDA_RESULT_H

const char *gm_result_name(unsigned result); /* "CUDA_ERROR_OUT_OF_MEMORY"; "unknown result" */

#endif
