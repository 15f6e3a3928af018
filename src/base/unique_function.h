// A move-only std::function: holds callables that own things (Buffers, unique_ptrs). Callables of
// up to 48 bytes live inside, larger ones on the heap. Calling an empty one is a programming error.
// Values; a function is called on the thread its holder says.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace geminga {

template <typename Signature>
class UniqueFunction;

template <typename R, typename... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}
  template <typename F,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, UniqueFunction> &&
                                        std::is_invocable_r_v<R, std::decay_t<F>&, Args...>>>
  UniqueFunction(F&& function) {
    using Held = std::decay_t<F>;
    if constexpr (fits<Held>()) {
      new (&storage_) Held(std::forward<F>(function));
      ops_ = &inline_ops<Held>;
    } else {
      *reinterpret_cast<Held**>(&storage_) = new Held(std::forward<F>(function));
      ops_ = &heap_ops<Held>;
    }
  }
  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~UniqueFunction() { reset(); }

  explicit operator bool() const { return ops_ != nullptr; }
  R operator()(Args... args) {
    assert(ops_ != nullptr);
    return ops_->call(&storage_, std::forward<Args>(args)...);
  }

 private:
  struct Ops {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);
    void (*destroy)(void*);
  };
  static constexpr std::size_t kInline = 48;
  template <typename Held>
  static constexpr bool fits() {
    return sizeof(Held) <= kInline && alignof(Held) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<Held>;
  }
  template <typename Held>
  static constexpr Ops inline_ops = {
      [](void* at, Args&&... args) -> R {
        return (*static_cast<Held*>(at))(std::forward<Args>(args)...);
      },
      [](void* from, void* to) {
        new (to) Held(std::move(*static_cast<Held*>(from)));
        static_cast<Held*>(from)->~Held();
      },
      [](void* at) { static_cast<Held*>(at)->~Held(); }};
  template <typename Held>
  static constexpr Ops heap_ops = {
      [](void* at, Args&&... args) -> R {
        return (**static_cast<Held**>(at))(std::forward<Args>(args)...);
      },
      [](void* from, void* to) { *static_cast<Held**>(to) = *static_cast<Held**>(from); },
      [](void* at) { delete *static_cast<Held**>(at); }};

  void take(UniqueFunction& other) {
    ops_ = std::exchange(other.ops_, nullptr);
    if (ops_ != nullptr) ops_->move(&other.storage_, &storage_);
  }
  void reset() {
    if (ops_ != nullptr) std::exchange(ops_, nullptr)->destroy(&storage_);
  }

  alignas(std::max_align_t) std::byte storage_[kInline];
  const Ops* ops_ = nullptr;
};

}  // namespace geminga
