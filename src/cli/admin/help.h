// What `geminga admin` says about itself: help of all levels, and words for a shell's completion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/admin/command.h"

namespace geminga::admin_cli {

std::string help_of_all(std::string_view program);
std::string help_of(std::string_view program, const Group& group);
std::string help_of(std::string_view program, const Group& group, const Command& command);

// The words that may come next behind `words`, the last of which is being typed.
std::vector<std::string> completions(const std::vector<std::string>& words);
// The script that makes a shell ("bash" or "zsh") ask for them; empty for another.
std::string completion_script(std::string_view shell);

}  // namespace geminga::admin_cli
