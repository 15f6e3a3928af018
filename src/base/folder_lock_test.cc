#include "base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace geminga {
namespace {

TEST(FolderLock, SecondIsRefusedUntilTheFirstGoes) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("geminga-lock-" + std::to_string(::getpid()));
  {
    auto first = FolderLock::acquire(folder.string());
    ASSERT_TRUE(first.is_ok()) << first.status().to_string();
    auto second = FolderLock::acquire(folder.string());
    ASSERT_TRUE(second.is(ErrorCode::Conflict));
    EXPECT_THAT(second.status().message(), ::testing::HasSubstr(std::to_string(::getpid())));
  }
  EXPECT_TRUE(FolderLock::acquire(folder.string()).is_ok());
  std::filesystem::remove_all(folder);
}

TEST(FolderLock, SaysWhyAFolderCannotBeUsed) {
  auto lock = FolderLock::acquire("/proc/geminga");
  ASSERT_TRUE(lock.is(ErrorCode::Io));
  EXPECT_THAT(lock.status().message(), ::testing::HasSubstr("/proc/geminga"));
}

}  // namespace
}  // namespace geminga
