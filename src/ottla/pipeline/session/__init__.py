"""The Spark session: Java, the driver JVM, masters and the packages shipped to executors."""
