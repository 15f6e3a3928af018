// A first-in first-out queue in one array that grows by doubling and is given back when a burst is
// over: no allocation per element. Belongs to one shard.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace geminga {

template <typename T>
class RingQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return slots_[head_]; }
  T& back() { return (*this)[size_ - 1]; }
  T& operator[](std::size_t i) { return slots_[(head_ + i) & (slots_.size() - 1)]; }

  void push_back(T value) {
    if (size_ == slots_.size()) grow();
    slots_[(head_ + size_) & (slots_.size() - 1)] = std::move(value);
    ++size_;
  }
  void pop_front() {
    slots_[head_] = T{};
    head_ = (head_ + 1) & (slots_.size() - 1);
    if (--size_ == 0 && slots_.size() > kKept) {
      slots_ = std::vector<T>();
      head_ = 0;
    }
  }

 private:
  static constexpr std::size_t kFirst = 8;
  static constexpr std::size_t kKept = 1024;

  void grow() {
    std::vector<T> larger(slots_.empty() ? kFirst : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    slots_ = std::move(larger);
    head_ = 0;
  }

  std::vector<T> slots_;  // a power of two
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace geminga
