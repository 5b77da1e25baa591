// SPDX-License-Identifier: Apache-2.0
#include "server/server_core.hpp"
#include <rondo/detail/blocking_retry.hpp>
#include <rondo/transport.hpp>

#include <string>
#include <utility>

namespace rondo {

std::optional<bool> detail::RoomAttempt::operator()() const noexcept {
    if (core->store().was_closed()) return false;
    if (core->store().free_slots() > 0) return true;
    return std::nullopt;
}

Ingress::Ingress(std::shared_ptr<detail::ServerCore> core) noexcept : core_{std::move(core)} {}

const SampleSpec& Ingress::spec() const noexcept {
    return core_->spec();
}

std::shared_ptr<detail::WaitPoint> Ingress::room() const noexcept {
    return core_->store().room();
}

bool Ingress::blocking_wait_for_room(Deadline deadline) {
    return detail::blocking_retry(*room(), detail::RoomAttempt{core_}, deadline);
}

tl::expected<std::size_t, InsertError> Ingress::try_insert(std::span<const ArrayBytes> arrays,
                                                           std::size_t count) {
    const auto began = detail::Recorder::now();
    if (auto error = core_->check(arrays, count)) return tl::unexpected{std::move(*error)};
    return core_->receive(core_->take_rows(arrays, 0, count), began);
}

tl::expected<std::size_t, InsertError> Ingress::try_insert_payloads(
    std::span<const std::byte> payloads) {
    const std::uint64_t payload = core_->spec().payload_bytes();
    if (payload == 0 || payloads.size() % payload != 0) {
        return tl::unexpected{InsertError{InsertError::Code::mismatch, 0,
                                          "expected whole payloads of " + std::to_string(payload) +
                                              " bytes each, got " +
                                              std::to_string(payloads.size()) + " bytes"}};
    }
    const auto began = detail::Recorder::now();
    return core_->receive(core_->take_payloads(payloads.data(), payloads.size() / payload), began);
}

}  // namespace rondo
