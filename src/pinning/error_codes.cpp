// SPDX-License-Identifier: Apache-2.0
#include "pinning/error_codes.hpp"

#include <fstream>

namespace rondo::detail {
namespace {

std::string allocation_hint(const ErrorCircumstances& circumstances) {
    constexpr std::uint64_t large = std::uint64_t{512} << 30;
    if (circumstances.ring_bytes == 0) {
        return "The device has no memory left for a context: see nvidia-smi for who has it, or "
               "choose another with ServerOptions::pin_device.";
    }
    if (circumstances.wsl) {
        return "Under WSL only a part of the machine's memory can be page-locked: make the ring "
               "smaller, or raise `memory` in .wslconfig.";
    }
    if (circumstances.ring_bytes > large) {
        return "Many drivers cannot page-lock more than 512 GiB in one process: make the ring "
               "smaller, or spread the actors over several learners.";
    }
    return "The driver found too little memory that it may lock: make the ring smaller, or see "
           "what "
           "else on this machine holds page-locked memory.";
}

}  // namespace

bool running_on_wsl() {
    std::ifstream file{"/proc/sys/kernel/osrelease"};
    std::string release;
    std::getline(file, release);
    return release.find("icrosoft") != std::string::npos;
}

std::string hint_for(int code, const ErrorCircumstances& circumstances) {
    switch (code) {
        case cuda_error::memory_allocation:
            return allocation_hint(circumstances);
        case cuda_error::initialization:
            return "CUDA does not work in a process that was forked after its parent had used it: "
                   "start this process with spawn or exec.";
        case cuda_error::insufficient_driver:
            return "The NVIDIA driver is missing, or older than this runtime wants: update the "
                   "driver, or use a runtime of an earlier CUDA.";
        case cuda_error::devices_unavailable:
            return "Another process has the device for itself (compute mode EXCLUSIVE_PROCESS), or "
                   "it is out of order: see nvidia-smi.";
        case cuda_error::no_device:
            return "No GPU is visible: see CUDA_VISIBLE_DEVICES, and in a container whether it was "
                   "started with access to the GPUs (e.g. docker run --gpus all).";
        case cuda_error::operating_system:
            return "The kernel refused the driver's request: see the kernel's log for NVRM lines.";
        case cuda_error::already_registered:
            return "Somebody page-locked these pages before and did not undo it before the memory "
                   "was unmapped: look for another library in this process that registers memory.";
        case cuda_error::not_supported:
            return "This device or system cannot page-lock existing memory (some integrated GPUs, "
                   "vGPU profiles and confidential guests): switch pin_host_memory off.";
        case cuda_error::system_not_ready:
            return "The system is not ready to use CUDA yet: on machines with NVSwitch, see "
                   "whether "
                   "nvidia-fabricmanager runs.";
        case cuda_error::driver_mismatch:
            return "The driver's kernel module and its libraries are of different versions: reload "
                   "the module or restart the machine.";
        case cuda_error::not_supported_on_device:
            return "A forward-compatibility package (cuda-compat) is in use that this GPU does not "
                   "support: remove it from LD_LIBRARY_PATH.";
        default:
            return {};
    }
}

bool means_unloading(int code) noexcept {
    return code == cuda_error::unloading;
}

std::string describe(PinApi& api, const CallResult& result) {
    return std::string{result.call} + ": " + api.error_name(result.code) + " (" +
           std::to_string(result.code) + ')';
}

}  // namespace rondo::detail
