"""What the black-box tests and the benchmark share: brokers as processes, hand-made frames, REST, /proc."""
