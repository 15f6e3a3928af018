// A queue from one shard to another: one thread puts, one other thread takes, no lock.
//
// It has no limit of its own. What may be in it is bounded by what its users may have in flight:
// publishes by the permits of a connection and the memory budget, deliveries by consumer permits
// and the outbox watermark, control calls by the number of connections.
#pragma once

#include <atomic>
#include <utility>

#include "base/unique_function.h"

namespace geminga {

class Mailbox {
 public:
  using Work = UniqueFunction<void()>;

  Mailbox() : head_(new Node), tail_(head_) {}
  ~Mailbox() {
    while (head_ != nullptr) delete std::exchange(head_, head_->next.load());
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // The sending thread only.
  void put(Work work) {
    Node* node = new Node;
    node->work = std::move(work);
    tail_->next.store(node, std::memory_order_release);
    tail_ = node;
  }

  // The receiving thread only. False: nothing there.
  bool take(Work& work) {
    Node* next = head_->next.load(std::memory_order_acquire);
    if (next == nullptr) return false;
    work = std::move(next->work);
    delete std::exchange(head_, next);
    return true;
  }

 private:
  struct Node {
    Work work;
    std::atomic<Node*> next{nullptr};
  };
  // head_ is a spent node; its successor is the first to take.
  alignas(64) Node* head_;
  alignas(64) Node* tail_;
};

}  // namespace geminga
