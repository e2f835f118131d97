// Copyright (c) 2026, the Redstart authors. GPL-2.0-only.

// go-sql-driver/mysql: see test_clients.py for what it must print.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"
	"unicode/utf8"

	_ "github.com/go-sql-driver/mysql"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	db, err := sql.Open("mysql", fmt.Sprintf("app:p@tcp(127.0.0.1:%s)/t", os.Args[1]))
	check(err)
	defer db.Close()

	tx, err := db.Begin()
	check(err)
	insert, err := tx.Prepare("INSERT INTO go (id, s) VALUES (?, ?)")
	check(err)
	for number := 0; number < 100; number++ {
		_, err = insert.Exec(number, fmt.Sprintf("ü%d", number))
		check(err)
	}
	check(tx.Commit())

	tx, err = db.Begin()
	check(err)
	_, err = tx.Exec("DELETE FROM go WHERE id >= ?", 50)
	check(err)
	check(tx.Rollback())

	var count int
	var text string
	check(db.QueryRow("SELECT COUNT(*), MAX(s) FROM go WHERE id < ?", 10).Scan(&count, &text))
	fmt.Println(count, text)

	rows, err := db.Query("SELECT id, s FROM big")
	check(err)
	ids, length := 0, 0
	for rows.Next() {
		var id int
		check(rows.Scan(&id, &text))
		ids += id
		length += utf8.RuneCountInString(text)
	}
	check(rows.Err())
	fmt.Println(ids, length)

	check(db.QueryRow("SELECT COUNT(*) FROM go").Scan(&count))
	fmt.Println(count)
}
