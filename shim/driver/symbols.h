/* The functions of the driver that gpumem itself calls: rows of calls.h, each with its field of the table gm_drv
 * (driver.h). */
#ifndef GM_DRIVER_SYMBOLS_H
#define GM_DRIVER_SYMBOLS_H

/* X(field, exact symbol, optional: absent in some supported driver) */
#define GM_DRIVER_SYMBOLS(X)                                              \
    X(init, cuInit, 0)                                                    \
    X(ctx_get_current, cuCtxGetCurrent, 0)                                \
    X(ctx_push, cuCtxPushCurrent_v2, 0)                                   \
    X(ctx_pop, cuCtxPopCurrent_v2, 0)                                     \
    X(ctx_get_device, cuCtxGetDevice, 0)                                  \
    X(ctx_get_priorities, cuCtxGetStreamPriorityRange, 0)                 \
    X(ctx_get_id, cuCtxGetId, 1)                                          \
    X(ctx_from_green, cuCtxFromGreenCtx, 1)                               \
    X(primary_get_state, cuDevicePrimaryCtxGetState, 0)                   \
    X(primary_retain, cuDevicePrimaryCtxRetain, 0)                        \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, 1)                   \
    X(ctx_synchronize, cuCtxSynchronize, 0)                               \
    X(ctx_record_event, cuCtxRecordEvent, 1)                              \
    X(ctx_wait_event, cuCtxWaitEvent, 1)                                  \
    X(driver_get_version, cuDriverGetVersion, 0)                          \
    X(device_get_count, cuDeviceGetCount, 0)                              \
    X(device_get_name, cuDeviceGetName, 0)                                \
    X(device_get_uuid, cuDeviceGetUuid_v2, 1)                             \
    X(device_get_attribute, cuDeviceGetAttribute, 0)                      \
    X(device_get_pci_bus_id, cuDeviceGetPCIBusId, 1)                      \
    X(device_total_mem, cuDeviceTotalMem_v2, 0)                           \
    X(device_can_access_peer, cuDeviceCanAccessPeer, 0)                   \
    X(mem_get_info, cuMemGetInfo_v2, 0)                                   \
    X(mem_alloc, cuMemAlloc_v2, 0)                                        \
    X(mem_alloc_pitch, cuMemAllocPitch_v2, 0)                             \
    X(mem_alloc_managed, cuMemAllocManaged, 0)                            \
    X(mem_free, cuMemFree_v2, 0)                                          \
    X(mem_alloc_async, cuMemAllocAsync, 1)                                \
    X(mem_alloc_async_ptsz, cuMemAllocAsync_ptsz, 1)                      \
    X(mem_free_async, cuMemFreeAsync, 1)                                  \
    X(mem_free_async_ptsz, cuMemFreeAsync_ptsz, 1)                        \
    X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 1)              \
    X(mem_alloc_from_pool_async_ptsz, cuMemAllocFromPoolAsync_ptsz, 1)    \
    X(mem_pool_create, cuMemPoolCreate, 1)                                \
    X(mem_pool_destroy, cuMemPoolDestroy, 1)                              \
    X(mem_pool_set_attribute, cuMemPoolSetAttribute, 1)                   \
    X(mem_pool_get_attribute, cuMemPoolGetAttribute, 1)                   \
    X(mem_pool_set_access, cuMemPoolSetAccess, 1)                         \
    X(mem_pool_trim_to, cuMemPoolTrimTo, 1)                               \
    X(device_get_default_mem_pool, cuDeviceGetDefaultMemPool, 1)          \
    X(device_get_graph_mem_attribute, cuDeviceGetGraphMemAttribute, 1)    \
    X(mem_advise_first, cuMemAdvise, 1)                                   \
    X(mem_advise, cuMemAdvise_v2, 1)                                      \
    X(mem_prefetch, cuMemPrefetchAsync, 1)                                \
    X(mem_prefetch_ptsz, cuMemPrefetchAsync_ptsz, 1)                      \
    X(mem_prefetch_v2, cuMemPrefetchAsync_v2, 1)                          \
    X(mem_prefetch_v2_ptsz, cuMemPrefetchAsync_v2_ptsz, 1)                \
    X(mem_address_reserve, cuMemAddressReserve, 1)                        \
    X(mem_address_free, cuMemAddressFree, 1)                              \
    X(mem_create, cuMemCreate, 1)                                         \
    X(mem_release, cuMemRelease, 1)                                       \
    X(mem_map, cuMemMap, 1)                                               \
    X(mem_unmap, cuMemUnmap, 1)                                           \
    X(mem_set_access, cuMemSetAccess, 1)                                  \
    X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 1)   \
    X(mem_host_alloc, cuMemHostAlloc, 0)                                  \
    X(mem_host_register, cuMemHostRegister_v2, 0)                         \
    X(mem_host_unregister, cuMemHostUnregister, 0)                        \
    X(mem_free_host, cuMemFreeHost, 0)                                    \
    X(mem_export, cuMemExportToShareableHandle, 1)                        \
    X(memcpy_async, cuMemcpyAsync, 0)                                     \
    X(memcpy_2d_async, cuMemcpy2DAsync_v2, 0)                             \
    X(memset_d8_async, cuMemsetD8Async, 0)                                \
    X(memset_d8_async_ptsz, cuMemsetD8Async_ptsz, 0)                      \
    X(module_load_data, cuModuleLoadData, 0)                              \
    X(module_get_function, cuModuleGetFunction, 0)                        \
    X(launch_kernel, cuLaunchKernel, 0)                                   \
    X(stream_create, cuStreamCreate, 0)                                   \
    X(stream_destroy, cuStreamDestroy_v2, 0)                              \
    X(stream_query, cuStreamQuery, 0)                                     \
    X(stream_synchronize, cuStreamSynchronize, 0)                         \
    X(stream_wait_event, cuStreamWaitEvent, 0)                            \
    X(stream_get_ctx, cuStreamGetCtx, 1)                                  \
    X(stream_get_flags, cuStreamGetFlags, 1)                              \
    X(stream_is_capturing, cuStreamIsCapturing, 0)                        \
    X(stream_is_capturing_ptsz, cuStreamIsCapturing_ptsz, 0)              \
    X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 0) \
    X(event_create, cuEventCreate, 0)                                     \
    X(event_destroy, cuEventDestroy_v2, 0)                                \
    X(event_record, cuEventRecord, 0)                                     \
    X(event_record_ptsz, cuEventRecord_ptsz, 0)                           \
    X(event_query, cuEventQuery, 0)                                       \
    X(event_synchronize, cuEventSynchronize, 0)                           \
    X(graph_get_nodes, cuGraphGetNodes, 1)                                \
    X(graph_node_get_type, cuGraphNodeGetType, 1)                         \
    X(graph_kernel_node_get_params, cuGraphKernelNodeGetParams_v2, 1)     \
    X(graph_child_get, cuGraphChildGraphNodeGetGraph, 1)                  \
    X(func_get_param_info, cuFuncGetParamInfo, 1)                         \
    X(kernel_get_param_info, cuKernelGetParamInfo, 1)                     \
    X(func_get_name, cuFuncGetName, 1)                                    \
    X(kernel_get_name, cuKernelGetName, 1)                                \
    X(pointer_get_attribute, cuPointerGetAttribute, 0)                    \
    X(pointer_get_attributes, cuPointerGetAttributes, 0)

#endif
