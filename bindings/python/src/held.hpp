// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

namespace rondo::python {

namespace detail {

/// What is to be destroyed with the GIL held.
struct Remains {
    Remains() = default;
    Remains(const Remains&) = delete;
    Remains& operator=(const Remains&) = delete;
    virtual ~Remains() = default;
};

/// At once if this thread holds the GIL, else by the main thread, when it next takes the GIL.
void bury(std::unique_ptr<Remains> remains) noexcept;

}  // namespace detail

/// Shares an object that refers to Python's among threads without the GIL: whoever is the last to
/// let go, it dies with the GIL held. Called with the GIL held.
template <typename T>
std::shared_ptr<T> held(T object) {
    struct Holder final : detail::Remains {
        explicit Holder(T value) : held{std::move(value)} {}
        T held;
    };
    auto holder = std::make_unique<Holder>(std::move(object));
    T* const at = &holder->held;
    std::shared_ptr<Holder> owner{holder.release(), [](Holder* last) {
                                      detail::bury(std::unique_ptr<detail::Remains>{last});
                                  }};
    return {std::move(owner), at};
}

}  // namespace rondo::python
