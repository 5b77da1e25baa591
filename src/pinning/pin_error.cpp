// SPDX-License-Identifier: Apache-2.0
#include <rondo/pin_error.hpp>

#include <array>
#include <cstdio>
#include <limits>
#include <utility>

namespace rondo {
namespace {

/// "1.5 KiB (1536 bytes)": readable, and exact for whoever compares.
std::string size_text(std::uint64_t bytes) {
    constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto exact = std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    if (bytes < 1024) return exact;
    auto scaled = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    // From 1023.95 on, "%.1f" would print 1024.0 of the smaller unit.
    for (; scaled >= 1023.95 && unit + 1 < units.size(); ++unit) scaled /= 1024;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f %s", scaled, units[unit]);
    return text.data() + (" (" + exact + ")");
}

/// Loaders' messages may span lines, but each attempt has one of its own.
std::string one_line(std::string text) {
    for (char& c : text) {
        if (c == '\n' || c == '\r') c = ' ';
    }
    return text;
}

std::string message_of(const InvalidOptions& e) {
    return e.field + ' ' + e.rule + ", but it is " + (e.value.empty() ? "empty" : e.value) +
           ". Set ServerOptions::" + e.field + " accordingly.";
}

std::string message_of(const RingMemory& e) {
    const auto available = size_text(e.available) + " (limited by " + e.limited_by + ')';
    const std::string smaller = "a smaller ring: fewer num_buffers, a smaller batch_size or sample";
    if (e.wanted == std::numeric_limits<std::uint64_t>::max()) {
        return "The ring would need more than " + available + ". Ask for " + smaller + '.';
    }
    const auto wanted = "The ring needs " + size_text(e.wanted);
    if (!e.can_ever_fit) {
        return wanted + ", but this process can never have more than " + available +
               ", even if nothing else ran. Raise that limit, or ask for " + smaller + '.';
    }
    return wanted + ", but now only " + available +
           " can be had. It would fit if memory were free: end what else uses it and try again, or "
           "ask for " +
           smaller + '.';
}

std::string message_of(const RuntimeUnavailable& e) {
    std::string text =
        "Host memory cannot be pinned: expected a CUDA runtime or driver that can page-lock memory "
        "and sees a device, but found none. ";
    if (e.attempts.empty()) {
        text += "Nothing was tried.\n";
    } else {
        text += "Tried, in this order:\n";
        std::size_t number = 0;
        for (const auto& attempt : e.attempts) {
            text += "  " + std::to_string(++number) + ". " +
                    one_line(attempt.rung + ": " + attempt.candidate + ": " + attempt.outcome) +
                    '\n';
        }
    }
    if (e.overridden) {
        return text +
               "No other place is searched while ServerOptions::cudart or RONDO_CUDART is set: "
               "correct it, or remove it to have one searched for.";
    }
    return text +
           "Check that the NVIDIA driver works (nvidia-smi). If only the runtime is missing, run "
           "`pip install nvidia-cuda-runtime-cu12` (CUDA 12) or `pip install nvidia-cuda-runtime` "
           "(CUDA 13 and later), or set RONDO_CUDART to the path of a libcudart.so. Without a GPU, "
           "switch pin_host_memory off.";
}

/// " (cudaHostRegister of /usr/lib/libcudart.so.12, device 0: the first)"; empty if not known.
std::string origin_text(const Registration& e) {
    if (e.call.empty()) return {};
    return " (" + e.call + (e.library.empty() ? "" : " of " + e.library) + ", device " +
           std::to_string(e.device) + ": " + e.device_reason + ')';
}

std::string message_of(const Registration& e) {
    const auto error = e.symbol + " (" + std::to_string(e.code) + ')' + origin_text(e) + ". ";
    const auto remedy = e.hint.empty()
                            ? "Run `rondo doctor` on this machine, or switch pin_host_memory off."
                            : e.hint;
    if (e.bytes == 0) {
        return "Every region of the ring should be page-locked, but the runtime could not "
               "initialise the device: " +
               error + remedy;
    }
    return "Every region of the ring should be page-locked, but the runtime refused region " +
           std::to_string(e.region) + " (array \"" + e.array + "\", " + size_text(e.bytes) +
           ") with " + error + "What had been registered before it has been undone. " + remedy;
}

std::string message_of(const CreationCancelled& /*reason*/) {
    return "The server was not created: the operation was cancelled. What it had done by then is "
           "undone as soon as the driver returns.";
}

}  // namespace

PinError::PinError(Reason reason) noexcept : reason_{std::move(reason)} {}

std::string PinError::message() const {
    return std::visit([](const auto& reason) { return message_of(reason); }, reason_);
}

}  // namespace rondo
