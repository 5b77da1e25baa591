// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace rondo::detail {

// The two interfaces that can page-lock memory, declared here so that no CUDA header is needed.
// Error codes are ints: the enumerations of both are, and 0 is success in both. Every pointer of a
// table that `resolve` returns is set; a test fills a table with functions of its own.

/// Functions of the CUDA runtime, libcudart.
struct RuntimeEntryPoints {
    int (*host_register)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
    int (*host_unregister)(void* memory) = nullptr;
    const char* (*get_error_name)(int code) = nullptr;
    int (*free)(void* device_memory) = nullptr;
    int (*get_last_error)() = nullptr;
    int (*host_get_flags)(unsigned* flags, void* memory) = nullptr;
    int (*set_device)(int device) = nullptr;
    int (*get_device)(int* device) = nullptr;
    int (*get_device_count)(int* count) = nullptr;
    int (*runtime_get_version)(int* version) = nullptr;
};

/// Calls `visit(symbol, member)` for each function; both lists in one place, so that none is
/// missed.
template <typename Table, typename Visit>
requires requires(Table& table) {
    table.runtime_get_version;
}
void for_each_entry_point(Table& table, const Visit& visit) {
    visit("cudaHostRegister", table.host_register);
    visit("cudaHostUnregister", table.host_unregister);
    visit("cudaGetErrorName", table.get_error_name);
    visit("cudaFree", table.free);
    visit("cudaGetLastError", table.get_last_error);
    visit("cudaHostGetFlags", table.host_get_flags);
    visit("cudaSetDevice", table.set_device);
    visit("cudaGetDevice", table.get_device);
    visit("cudaGetDeviceCount", table.get_device_count);
    visit("cudaRuntimeGetVersion", table.runtime_get_version);
}

using DriverDevice = int;  ///< CUdevice; its value is the device's ordinal
struct DriverContextTag;
using DriverContext = DriverContextTag*;  ///< CUcontext

/// Functions of the CUDA driver, libcuda.
struct DriverEntryPoints {
    int (*init)(unsigned flags) = nullptr;
    int (*device_get)(DriverDevice* device, int ordinal) = nullptr;
    int (*device_get_count)(int* count) = nullptr;
    int (*primary_ctx_retain)(DriverContext* context, DriverDevice device) = nullptr;
    int (*primary_ctx_release)(DriverDevice device) = nullptr;
    int (*primary_ctx_get_state)(DriverDevice device, unsigned* flags, int* active) = nullptr;
    int (*ctx_push_current)(DriverContext context) = nullptr;
    int (*ctx_pop_current)(DriverContext* context) = nullptr;
    int (*ctx_get_current)(DriverContext* context) = nullptr;
    int (*ctx_get_device)(DriverDevice* device) = nullptr;
    int (*mem_host_register)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
    int (*mem_host_unregister)(void* memory) = nullptr;
    int (*pointer_get_attribute)(void* value, int attribute, unsigned long long address) = nullptr;
    int (*get_error_name)(int code, const char** name) = nullptr;
    int (*driver_get_version)(int* version) = nullptr;
};

/// The symbols are those that cuda.h's macros stand for. `cuCtxGetDevice` has a `_v2` too, since
/// CUDA 13, but with other parameters.
template <typename Table, typename Visit>
requires requires(Table& table) {
    table.driver_get_version;
}
void for_each_entry_point(Table& table, const Visit& visit) {
    visit("cuInit", table.init);
    visit("cuDeviceGet", table.device_get);
    visit("cuDeviceGetCount", table.device_get_count);
    visit("cuDevicePrimaryCtxRetain", table.primary_ctx_retain);
    visit("cuDevicePrimaryCtxRelease_v2", table.primary_ctx_release);
    visit("cuDevicePrimaryCtxGetState", table.primary_ctx_get_state);
    visit("cuCtxPushCurrent_v2", table.ctx_push_current);
    visit("cuCtxPopCurrent_v2", table.ctx_pop_current);
    visit("cuCtxGetCurrent", table.ctx_get_current);
    visit("cuCtxGetDevice", table.ctx_get_device);
    visit("cuMemHostRegister_v2", table.mem_host_register);
    visit("cuMemHostUnregister", table.mem_host_unregister);
    visit("cuPointerGetAttribute", table.pointer_get_attribute);
    visit("cuGetErrorName", table.get_error_name);
    visit("cuDriverGetVersion", table.driver_get_version);
}

}  // namespace rondo::detail
