#include "cli/admin/arguments.h"

#include <gmock/gmock.h>

#include <set>

#include "cli/admin/help.h"
#include "cli/admin/output.h"
#include "cli/admin/request.h"
#include "cli/admin/units.h"
#include "server/json_text.h"

namespace geminga::admin_cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string parsed(std::string_view description, const std::vector<std::string>& words) {
  const auto values = parse_arguments(describe(description), words);
  return values ? to_json(*values) : values.status().message();
}

TEST(AdminUnits, Sizes) {
  EXPECT_EQ(*parse_size("100"), 100);
  EXPECT_EQ(*parse_size("-1"), -1);
  EXPECT_EQ(*parse_size("16k"), 16 << 10);
  EXPECT_EQ(*parse_size("10MB"), 10 << 20);
  EXPECT_EQ(*parse_size("2G"), std::int64_t{2} << 30);
  for (const char* wrong : {"", "M", "1x", "1MM", "9999999999T"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;
}

TEST(AdminUnits, Times) {
  EXPECT_EQ(*parse_duration("30"), 30);
  EXPECT_EQ(*parse_duration("5m"), 300);
  EXPECT_EQ(*parse_duration("2h"), 7200);
  EXPECT_EQ(*parse_duration("1w"), 604800);
  for (const char* wrong : {"", "s", "1x", "1ms"}) EXPECT_FALSE(parse_duration(wrong)) << wrong;
  EXPECT_EQ(*parse_date_time("2020-01-01T00:00:00Z"), 1577836800000);
  EXPECT_EQ(*parse_date_time("2020-01-01T02:00:00.5+02:00"), 1577836800500);
  EXPECT_FALSE(parse_date_time("2020-01-01"));
}

TEST(AdminArguments, NamesBecomePaths) {
  EXPECT_EQ(parsed("topic", {"t/n/x y"}),
            R"({"topic":"persistent/t/n/x+y","topic-name":"persistent://t/n/x y"})");
  EXPECT_THAT(parsed("topic", {"features/raw"}), HasSubstr("persistent/public/features/raw"));
  EXPECT_THAT(parsed("topic", {"non-persistent://t/n/x"}), HasSubstr("\"non-persistent/t/n/x\""));
  EXPECT_EQ(parsed("namespace", {"raw"}), R"({"namespace":"public/raw"})");
  EXPECT_THAT(parsed("namespace", {"a/b/c/d"}), HasSubstr("Invalid namespace"));
}

TEST(AdminArguments, NamesOfAnEnumerationTakeAnyCaseAndDashes) {
  EXPECT_EQ(parsed("-p:enum", {"-p", "tiered-storage-first"}), R"({"p":"TIERED_STORAGE_FIRST"})");
}

TEST(AdminArguments, OptionsHaveKinds) {
  constexpr std::string_view kOptions =
      "-s,--size:mb! -t,--time:min=1h -ap,--applied -l,--list:list -p,--property:map -n:int";
  EXPECT_EQ(parsed(kOptions, {"-s", "10M"}), R"({"size":10,"time":60,"applied":false})");
  EXPECT_EQ(parsed(kOptions, {"--size=2G", "-ap", "-l", "a,b", "--list", "c", "-n", "-1"}),
            R"({"size":2048,"applied":true,"list":["a","b","c"],"n":-1,"time":60})");
  EXPECT_THAT(parsed(kOptions, {"-s", "1M", "-p", "a=1,b=x,y", "-p", "c=3"}),
              HasSubstr(R"("property":{"a":"1","b":"x,y","c":"3"})"));
  EXPECT_THAT(parsed(kOptions, {}), HasSubstr("missing: -s, --size"));
  EXPECT_THAT(parsed(kOptions, {"-s", "10"}), HasSubstr("at least 1M"));
  EXPECT_THAT(parsed(kOptions, {"-s", "1M", "--nonsense"}), HasSubstr("no option --nonsense"));
  EXPECT_THAT(parsed(kOptions, {"-s", "1M", "-n", "x"}), HasSubstr("-n: 'x' is not a whole"));
  EXPECT_THAT(parsed(kOptions, {"-s"}), HasSubstr("needs a value"));
  EXPECT_THAT(parsed(kOptions, {"-s", "1M", "more"}), HasSubstr("no place for 'more'"));
}

TEST(AdminArguments, OneOfTwoIsChosen) {
  constexpr std::string_view kOptions = "-e,--enable@on=true -d,--disable@on=false";
  EXPECT_EQ(parsed(kOptions, {"-e"}), R"({"on":true})");
  EXPECT_EQ(parsed(kOptions, {"--disable"}), R"({"on":false})");
  EXPECT_EQ(parsed(kOptions, {}), "missing: --enable or --disable");
  EXPECT_THAT(parsed(kOptions, {"-e", "-d"}), HasSubstr("contradicts"));
}

TEST(AdminRequest, IsFilledIn) {
  const boost::json::object values{{"topic", "persistent/t/n/x%2Fy"},
                                   {"name", "a b/c"},
                                   {"applied", false},
                                   {"list", {"x", "y"}}};
  EXPECT_EQ(
      make_target("/{topic}/s/{name}?applied={applied}&g={applied?}&m={missing}&l={list}", values),
      "/persistent/t/n/x%2Fy/s/a%20b%2Fc?applied=false&l=x,y");
  const Command command{"c", "", "POST /x", R"({"a":"$list","b":"$missing","c":{"d":"$name"}})"};
  const Request request = make_request(command, values);
  EXPECT_EQ(request.method + " " + request.target, "POST /x");
  EXPECT_EQ(request.body, R"({"a":["x","y"],"c":{"d":"a b/c"}})");
  const Command without{"c", "", "POST /x", R"("$missing")"};
  EXPECT_EQ(make_request(without, values).body, "");
}

TEST(AdminOutput, LooksLikeJavas) {
  const std::string body = R"({"a":1,"b":[],"c":["x"],"d":{"e":null}})";
  EXPECT_EQ(render(Print::Json, body, false),
            "{\n  \"a\" : 1,\n  \"b\" : [ ],\n  \"c\" : [ \"x\" ],\n  \"d\" : {\n    \"e\" : null\n"
            "  }\n}\n");
  EXPECT_EQ(render(Print::Map, body, false), "a    1\nb    []\nc    [x]\nd    {e=null}\n");
  EXPECT_EQ(render(Print::Json, body, true), "a    1\nb    []\nc    [x]\nd.e  null\n");
  EXPECT_EQ(render(Print::Json, "", false), "null\n");
  EXPECT_EQ(render(Print::Lines, R"(["x","y"])", false), "x\ny\n");
  EXPECT_EQ(render(Print::Json, "no json", false), "no json\n");
}

// Every row can be described, has a name of its own, and says what it does.
TEST(AdminTables, AreWhole) {
  for (const Group& group : groups()) {
    std::set<std::string> names;
    for (const Command& command : group.commands) {
      EXPECT_TRUE(names.insert(std::string(first_name(command.names))).second) << command.names;
      EXPECT_TRUE(command.run != nullptr || !command.request.empty()) << command.names;
      const std::string help = help_of("geminga admin", group, command);
      EXPECT_THAT(help, HasSubstr(std::string(first_name(command.names))));
      std::set<std::string> options;
      for (const Option& option : describe(command.arguments).options)
        for (const std::string& name : option.names)
          EXPECT_TRUE(options.insert(name).second) << command.names << " " << name;
      const bool body = command.body.empty() || parse_json(command.body).is_ok();
      EXPECT_TRUE(body) << command.names;
    }
  }
}

TEST(AdminCompletion, OffersWhatMayCome) {
  EXPECT_THAT(completions({"top"}), ElementsAre("topics", "topicPolicies"));
  EXPECT_THAT(completions({"topics", "get-ret"}), ElementsAre("get-retention"));
  EXPECT_THAT(completions({"--admin-url", "http://x:1", "tenants", ""}), Contains("create"));
  EXPECT_THAT(completions({"topics", "skip", "--"}), ElementsAre("--subscription", "--count"));
  EXPECT_THAT(completions({"nothing", ""}), Not(Contains("create")));
}

}  // namespace
}  // namespace geminga::admin_cli
