// SPDX-License-Identifier: Apache-2.0
#include "client/send_operation.hpp"

#include <utility>

namespace rondo::detail {
namespace {

SendError::Code code_of(WaitEnd end) noexcept {
    return end == WaitEnd::timed_out ? SendError::Code::timed_out : SendError::Code::cancelled;
}

}  // namespace

std::optional<SendOperation::Result> SendOperation::proceed() {
    if (!checked_) {
        if (auto error = core_->check(arrays_, count_)) return tl::unexpected{std::move(*error)};
        checked_ = true;
    }
    for (;;) {
        if (large_ != nullptr) {
            const auto finished = core_->finished(*large_);
            if (!finished) return std::nullopt;
            sent_ += finished->rows;
            large_.reset();
            // A `close` that came meanwhile lets us finish: that is no error.
            if (finished->complete && sent_ == count_) return Result{};
        }
        auto taken = core_->take_rows(arrays_, sent_, count_, ClientCore::Rest::wait);
        sent_ += taken.rows;
        if (taken.closed) return failed(SendError::Code::connection_closed);
        if (sent_ == count_) return Result{};
        large_ = std::move(taken.large);
        if (large_ == nullptr) return std::nullopt;
    }
}

std::shared_ptr<WaitPoint> SendOperation::place() const noexcept {
    return large_ != nullptr ? std::shared_ptr<WaitPoint>{large_} : core_->room();
}

SendOperation::Result SendOperation::give_up(WaitEnd end) {
    abandon_large();
    return failed(code_of(end));
}

void SendOperation::abandon_large() noexcept {
    if (large_ == nullptr) return;
    sent_ += core_->abandon(*large_);
    large_.reset();
}

SendOperation::Result SendOperation::failed(SendError::Code code) const {
    return tl::unexpected{core_->error(code, sent_)};
}

std::optional<WaitAttempt::Result> WaitAttempt::operator()() const {
    switch (core->acked(target)) {
        case ClientCore::Acked::yes:
            return Result{};
        case ClientCore::Acked::never:
            return tl::unexpected{core->error(SendError::Code::connection_closed, 0)};
        case ClientCore::Acked::not_yet:
            break;
    }
    return std::nullopt;
}

WaitAttempt::Result WaitAttempt::give_up(WaitEnd end) const {
    return tl::unexpected{core->error(code_of(end), 0)};
}

tl::expected<bool, SendError> try_send(const std::shared_ptr<ClientCore>& core,
                                       std::span<const ArrayBytes> arrays) {
    if (auto error = core->check(arrays, 1)) return tl::unexpected{std::move(*error)};
    const auto taken = core->take_rows(arrays, 0, 1, ClientCore::Rest::copy);
    if (taken.closed) {
        return tl::unexpected{core->error(SendError::Code::connection_closed, taken.rows)};
    }
    return taken.rows == 1;
}

}  // namespace rondo::detail
