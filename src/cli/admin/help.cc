#include "cli/admin/help.h"

#include <algorithm>

#include "cli/admin/arguments.h"

namespace geminga::admin_cli {

namespace {

// "get-max-producers" -> "Shows max producers": most policies need no more.
std::string summary_of(const Command& command) {
  if (!command.help.empty()) return std::string(command.help);
  std::string name(first_name(command.names));
  std::string verb;
  for (const auto& [prefix, text] :
       {std::pair{"get-", "Shows "}, std::pair{"set-", "Sets "}, std::pair{"remove-", "Removes "},
        std::pair{"delete-", "Removes "}}) {
    if (!name.starts_with(prefix)) continue;
    verb = text;
    name = name.substr(std::string_view(prefix).size());
    break;
  }
  std::replace(name.begin(), name.end(), '-', ' ');
  return verb + name;
}

std::string column(std::string_view left, std::size_t width, std::string_view right) {
  std::string line = "  " + std::string(left);
  line.resize(std::max(line.size() + 1, width + 4), ' ');
  return line + std::string(right) + "\n";
}

constexpr std::string_view kGlobalOptions[] = {
    "--admin-url", "--auth-plugin", "--auth-params", "--request-timeout",
    "-o",          "--help",        "--version"};

}  // namespace

std::string help_of_all(std::string_view program) {
  std::string text =
      "usage: " + std::string(program) +
      " [OPTIONS] GROUP COMMAND [ARGUMENTS]\n\n"
      "Asks a running broker over its HTTP API, with the grammar of pulsar-admin.\n\n"
      "groups:\n";
  for (const Group& group : groups()) text += column(first_name(group.names), 20, group.help);
  text +=
      "\noptions:\n"
      "  --admin-url URL         where the broker is [http://localhost:8080]\n"
      "  --auth-plugin NAME      token, or the name of Pulsar's class for tokens\n"
      "  --auth-params TEXT      token:TOKEN or file:PATH\n"
      "  --request-timeout S     seconds to wait for an answer [60]\n"
      "  -o, --output FORMAT     json, or text: tables on a terminal\n"
      "  -h, --help              this help; behind a group or a command, theirs\n"
      "  -v, --version           the version\n\n"
      "The file that PULSAR_CLIENT_CONF names gives webServiceUrl, authPlugin and authParams.\n"
      "completion bash|zsh       prints a script for the shell: source <(" +
      std::string(program) + " completion bash)\n";
  return text;
}

std::string help_of(std::string_view program, const Group& group) {
  std::string text = "usage: " + std::string(program) + " " + std::string(first_name(group.names)) +
                     " COMMAND [ARGUMENTS]\n\n" + std::string(group.help) + "\n\ncommands:\n";
  for (const Command& command : group.commands)
    text += column(first_name(command.names), 46, summary_of(command));
  return text + "\n`" + std::string(program) + " " + std::string(first_name(group.names)) +
         " COMMAND --help` tells its arguments.\n";
}

std::string help_of(std::string_view program, const Group& group, const Command& command) {
  const Arguments arguments = describe(command.arguments);
  std::string text = "usage: " + std::string(program) + " " + std::string(first_name(group.names)) +
                     " " + std::string(first_name(command.names));
  if (!arguments.options.empty()) text += " [OPTIONS]";
  for (const Positional& positional : arguments.positionals) {
    const std::string usage = usage_of(positional);
    text += positional.optional ? " [" + usage + "]" : " " + usage;
  }
  text += "\n\n" + summary_of(command) + "\n";
  if (!arguments.options.empty()) text += "\noptions:\n";
  for (const Option& option : arguments.options)
    text += "  " + usage_of(option) + (option.required ? "  (required)" : "") + "\n";
  return text;
}

std::vector<std::string> completions(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  const std::string last = words.empty() ? std::string() : words.back();
  const auto offer = [&](std::string_view word) {
    if (word.starts_with(last)) found.emplace_back(word);
  };
  // Global options and their values come before the group.
  std::vector<std::string> plain;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const bool global = std::find(std::begin(kGlobalOptions), std::end(kGlobalOptions), words[i]) !=
                        std::end(kGlobalOptions);
    if (plain.empty() && global) {
      if (words[i] != "--help" && words[i] != "--version") ++i;
      continue;
    }
    plain.push_back(words[i]);
  }
  if (plain.empty()) {
    for (const Group& group : groups()) offer(first_name(group.names));
    offer("completion");
    if (last.starts_with('-'))
      for (const std::string_view option : kGlobalOptions) offer(option);
    return found;
  }
  for (const Group& group : groups()) {
    if (!has_name(group.names, plain[0])) continue;
    for (const Command& command : group.commands) {
      if (plain.size() == 1) {
        offer(first_name(command.names));
      } else if (has_name(command.names, plain[1])) {
        for (const Option& option : describe(command.arguments).options)
          for (const std::string& name : option.names)
            if (name.starts_with("--")) offer(name);
      }
    }
  }
  return found;
}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") {
    return "_geminga_admin() {\n"
           "  local skip=1\n"
           "  [ \"${COMP_WORDS[1]}\" = admin ] && skip=2\n"
           "  mapfile -t COMPREPLY < <(geminga admin __complete "
           "\"${COMP_WORDS[@]:$skip:$((COMP_CWORD - skip + 1))}\")\n"
           "}\n"
           "complete -o default -F _geminga_admin pulsar-admin\n"
           "complete -o default -F _geminga_admin geminga\n";
  }
  if (shell == "zsh") {
    return "_geminga_admin() {\n"
           "  local skip=2\n"
           "  [ \"${words[2]}\" = admin ] && skip=3\n"
           "  compadd -- ${(f)\"$(geminga admin __complete \"${words[@]:$((skip-1)):$((CURRENT-skip"
           "+1))}\")\"}\n"
           "}\n"
           "compdef _geminga_admin pulsar-admin geminga\n";
  }
  return {};
}

}  // namespace geminga::admin_cli
