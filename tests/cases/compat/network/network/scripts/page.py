PAGE = "https://not.asked.io"
