// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rondo/deadline.hpp>
#include <rondo/detail/async_retry.hpp>
#include <rondo/pin_error.hpp>
#include <rondo/spec.hpp>

#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/execution/context.hpp>
#include <asio/execution_context.hpp>
#include <asio/query.hpp>
#include <tl/expected.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace rondo {

class Server;
struct ServerOptions;

namespace detail {

/// A server in the making: what was asked for, then what came of it.
class ServerCreation;

/// Copies all that the options refer to, and what only the calling thread knows.
[[nodiscard]] std::shared_ptr<ServerCreation> prepare_creation(SampleSpec spec,
                                                               const ServerOptions& options);

/// Starts the thread that makes the server. Precondition: called once.
void start_creation(const std::shared_ptr<ServerCreation>& creation,
                    asio::execution_context& context);

/// What to wait for: that it is done.
[[nodiscard]] std::shared_ptr<WaitPoint> end_of(const std::shared_ptr<ServerCreation>& creation);

/// Takes the server once it is made.
struct CreateAttempt {
    using Result = tl::expected<Server, PinError>;

    std::shared_ptr<ServerCreation> creation;

    std::optional<Result> operator()() const;
    Result give_up(WaitEnd end) const;
};

template <typename CompletionToken>
auto async_creation(std::shared_ptr<ServerCreation> creation, CompletionToken&& token) {
    return asio::async_initiate<CompletionToken, void(CreateAttempt::Result)>(
        [](auto handler, std::shared_ptr<ServerCreation> made) {
            asio::execution_context& context =
                asio::query(asio::get_associated_executor(handler), asio::execution::context);
            AsyncRetry<CreateAttempt, decltype(handler)>::start(end_of(made), CreateAttempt{made},
                                                                Deadline{}, std::move(handler));
            start_creation(made, context);
        },
        token, std::move(creation));
}

}  // namespace detail
}  // namespace rondo
