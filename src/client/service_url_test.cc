#include "client/service_url.h"

#include <gtest/gtest.h>

namespace geminga::client {
namespace {

TEST(ServiceUrl, Hosts) {
  const auto one = parse_service_url("pulsar://localhost:6651/");
  ASSERT_TRUE(one);
  EXPECT_EQ(*one, (std::vector<HostPort>{{"localhost", 6651}}));
  const auto many = parse_service_url("pulsar://a,b:1,[::1]:2");
  ASSERT_TRUE(many);
  EXPECT_EQ(*many, (std::vector<HostPort>{{"a", 6650}, {"b", 1}, {"::1", 2}}));
  EXPECT_EQ((*many)[2].to_string(), "[::1]:2");
}

TEST(ServiceUrl, WhatIsWrongIsSaid) {
  for (const char* url :
       {"", "http://a", "pulsar://", "pulsar://a:x", "pulsar://a:0", "pulsar://a:65536",
        "pulsar://[::1", "pulsar://[::1]5", "pulsar://a,,b"}) {
    const auto hosts = parse_service_url(url);
    EXPECT_TRUE(hosts.is(ErrorCode::InvalidArgument)) << url;
    EXPECT_NE(hosts.status().message().find("pulsar://host:6650"), std::string::npos) << url;
  }
  EXPECT_TRUE(parse_service_url("pulsar+ssl://a:6651").is(ErrorCode::Unsupported));
}

TEST(ServiceUrl, TopicNames) {
  EXPECT_EQ(full_topic_name("x"), "persistent://public/default/x");
  EXPECT_EQ(full_topic_name("t/n/x"), "persistent://t/n/x");
  EXPECT_EQ(full_topic_name("non-persistent://t/n/x"), "non-persistent://t/n/x");
}

}  // namespace
}  // namespace geminga::client
