// SPDX-License-Identifier: Apache-2.0
#include <rondo/rondo.hpp>

#include <asio.hpp>

#include <iostream>

asio::awaitable<void> check(bool& ok) {
    const auto spec = rondo::SampleSpec::create({
        {"obs", rondo::dtype::float32, {4}},
        {"reward", rondo::dtype::float32, {}},
    });
    if (!spec) std::cerr << spec.error().message() << '\n';
    ok = spec.has_value();
    co_return;
}

int main() {
    bool ok = false;
    asio::io_context context;
    asio::co_spawn(context, check(ok), asio::detached);
    context.run();
    return ok ? 0 : 1;
}
