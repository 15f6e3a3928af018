#include "ledger/log_io.h"

namespace geminga {

Result<std::unique_ptr<LogIo>> make_uring_log_io(Shard&) {
  return Status::Unsupported("io_uring is not built in");
}

}  // namespace geminga
