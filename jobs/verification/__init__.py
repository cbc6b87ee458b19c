"""What ``verify`` looks at: the log and the files of each table without Spark, then what its rows say about each other."""
