//! Tables.

use super::*;

#[test]
fn a_table_with_names_is_read_split_and_standardised() {
    let place = temporary();
    let file = place.path().join("flowers, wild.csv");
    let mut lines = "size , kind,\"width, mm\"\n".to_owned();
    for row in 0..50 {
        lines += &format!("{row}, {},7\n", ["rose", "aster"][row % 2]);
    }
    write(&file, lines.as_bytes());
    let data = opened(&format!("csv:{},label=kind", text(file)), place.path());
    let description = data.train.description();
    assert_eq!(
        (description.goal, &description.classes[..]),
        (Goal::Classify, &["aster".to_owned(), "rose".to_owned()][..])
    );
    assert_eq!((data.train.len(), data.test.len(), &description.shape[..]), (40, 10, &[2][..]));
    let column = |data: &dyn Dataset, feature: usize| -> Vec<f32> {
        let value = |index| match sample(data, index).input {
            Values::F32(values) => values[feature],
            Values::U8(_) => panic!("tables are floats"),
        };
        (0..data.len()).map(value).collect()
    };
    let sizes = column(&*data.train, 0);
    let mean = sizes.iter().sum::<f32>() / 40.0;
    let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f32>() / 40.0;
    assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "{mean} {variance}");
    assert_eq!(column(&*data.train, 1), [0.0; 40], "what does not vary loses its mean");
    // both parts by the training part's numbers: steps of one row are as long in either
    let all: Vec<f32> = column(&*data.train, 0).into_iter().chain(column(&*data.test, 0)).collect();
    let (least, most) = all.iter().fold((f32::MAX, f32::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    let step = (most - least) / 49.0;
    for value in all {
        let row = (value - least) / step;
        assert!((row - row.round()).abs() < 1e-3, "{row}");
    }
}

/// Classes in this column.
fn of(label: Option<&str>) -> TableTarget {
    TableTarget::Class(label.map(str::to_owned))
}

#[test]
fn names_are_found_and_numbers_sorted_as_numbers() {
    let read =
        |text: &str| parse_csv(Path::new("t.csv"), text.as_bytes(), &TableTarget::Class(None)).expect("a good table");
    let table = read("1,2,10\n3,4,9\n5,6,9\n");
    assert_eq!((table.len(), table.description().classes.as_slice()), (3, &["9".to_owned(), "10".to_owned()][..]));
    assert_eq!(table.labels(), [1, 0, 0]);
    let Values::F32(values) = sample(&table, 1).input else { panic!("floats") };
    assert_eq!(values, [3.0, 4.0]);
    let spelled = read("1,01\n2,1\n3,01\n4,1\n5,2\n");
    assert_eq!(spelled.description().classes, ["01", "1", "2"], "each spelling once");
    assert_eq!(spelled.labels(), [0, 1, 0, 1, 2]);
    assert_eq!(read("a,b,class\n1,2,x\n1,2,y\n1,1,x\n").len(), 3, "the first line has the names");
    assert_eq!(read("1,2,x\n1,2,y\n1,1,x\n").len(), 3, "here it has not");
}

#[test]
fn columns_may_be_separated_otherwise_and_classes_be_anywhere() {
    let read = |text: &str, label: Option<&str>| {
        parse_csv(Path::new("t.csv"), text.as_bytes(), &of(label)).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let plain = read("a,b,kind\n1,2,x\n3,4,y\n5,6,x\n", None);
    assert_eq!(plain.description().columns, ["a", "b"]);
    for text in [
        "a;b;kind\n1;2;x\n3;4;y\n5;6;x\n",
        "\u{feff}a\tb\tkind\r\n1\t2\tx\r\n3\t4\ty\r\n5\t6\tx\r\n",
        "\n\n\"a\"; b;kind\n1;2;x\n3;4;y\n5;6;x",
    ] {
        assert_eq!(read(text, None), plain, "{text}");
    }
    let quoted = read("\"a; m; n\",b,kind\n1,2,x\n3,4,y\n5,6,x\n", None);
    assert_eq!(quoted.description().columns, ["a; m; n", "b"]);
    let first = "x,1,2\ny,3,4\nx,5,6\n";
    let by_number = read(first, Some("1"));
    assert_eq!(
        (by_number.labels(), &by_number.description().classes[..]),
        (plain.labels(), &plain.description().classes[..])
    );
    assert_eq!(by_number.description().columns, [""; 0]);
    assert_eq!(sample(&by_number, 1).input, sample(&plain, 1).input);
    // a value in the first row is not a name, a name is one whatever it looks like
    assert_eq!(read("1.5,1,x\n1.5,2,y\n1.5,3,x\n", Some("3")).description().shape, [2]);
    assert_eq!(read(&format!("kind,b,c\n{first}"), Some("1")).description().columns, ["b", "c"]);
    assert_eq!(read(&format!("2,b,c\n{first}"), Some("2")).labels(), plain.labels());
    assert_eq!(read(&format!("0,1,2\n{first}"), Some("0")).description().columns, ["1", "2"]);
}

#[test]
fn columns_of_another_table_are_found_by_their_names() {
    let place = temporary();
    let table = |name: &str, header: &str, row: fn([usize; 2], &str) -> String| {
        let rows = (0..30).map(|number| row([number, number * number], ["low", "high"][number / 15]));
        write(&place.path().join(name), format!("{header}{}", rows.collect::<String>()).as_bytes());
        format!("csv:{}", text(place.path().join(name)))
    };
    let own = opened(&table("own.csv", "a,b,class\n", |[a, b], class| format!("{a},{b},{class}\n")), place.path());
    let description = own.train.description();
    assert_eq!(description.columns, ["a", "b"]);
    let columns = Columns { names: description.columns.clone(), scales: description.normalization.clone() };
    let options = OpenOptions { columns: Some(columns), ..options(place.path()) };
    let open = |name: &str| open(&name.parse().expect("a name"), &options);
    for name in [
        table("turned.csv", "class;note;b;a\n", |[a, b], class| format!("{class};;{b};{a}\n")) + ",label=class",
        table("first.csv", "class,b,a\n", |[a, b], class| format!("{class},{b},{a}\n")),
        table("nameless.csv", "", |[a, b], class| format!("{a},{b},{class}\n")),
    ] {
        let other = open(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(other.train.description().columns, ["a", "b"]);
        for index in 0..own.train.len() {
            assert_eq!(sample(&*other.train, index), sample(&*own.train, index), "{name}");
        }
    }
    let refuse = |name: &str, words: &[&str]| match open(name) {
        Ok(_) => panic!("{name} was opened"),
        Err(error) => says(&error.to_string(), words),
    };
    let named = table("named.csv", "a,c,class\n", |[a, b], class| format!("{a},{b},{class}\n"));
    refuse(&named, &["named.csv", "lacks the column `b`", "a, c, class"]);
    let numbered = table("numbered.csv", "a,2020,class\n", |[a, b], class| format!("{a},{b},{class}\n"));
    refuse(&numbered, &["lacks the column `b`"]);
    let alone = table("alone.csv", "b,a\n", |[a, b], _| format!("{b},{a}\n"));
    refuse(&alone, &["no column with a class"]);
    let wide = table("wide.csv", "", |[a, b], class| format!("{a},{b},{b},{class}\n"));
    refuse(&wide, &["features in a row: 3", "learned from 2"]);
}

#[test]
fn mistakes_are_told_with_their_line() {
    let refuse = |text: &str, label: Option<&str>, words: &[&str]| {
        let error = parse_csv(Path::new("t.csv"), text.as_bytes(), &of(label)).expect_err("should be refused");
        says(&error.to_string(), &["t.csv"]);
        says(&error.to_string(), words);
    };
    refuse("", None, &["empty"]);
    refuse("a,b\n", None, &["no row"]);
    refuse("1\n2\n", None, &["one column"]);
    refuse("1,2,x\n1,?,x\n", None, &["line 2: column 2 is `?`"]);
    refuse("1,?,x\n1,2,x\n", None, &["line 1: column 2 is `?`"]);
    refuse("x,1,2\ny,1,2\n", None, &["line 1: column 1 is `x`", "`,label=COLUMN`, by name or number"]);
    refuse("a;b;c\n5,1;2;x\n", None, &["line 2: column 1 is `5,1`", "a point"]);
    refuse("x,1,2\ny,3,4\n", Some("4"), &["no column 4", "3, counted from 1"]);
    refuse("x,1,2\ny,3,4\n", Some("0"), &["no column 0"]);
    refuse("x,1,2\ny,3,4\n", Some("kind"), &["no column `kind`", "`,label=3` is the last"]);
    refuse("1,2,x\n1,nan,x\n", None, &["line 2: column 2 is `nan`"]);
    refuse("1,2,x\n1,inf,x\n", None, &["`inf`"]);
    refuse("1,2,x\n1,2,\n", None, &["line 2: the class, column 3, is empty"]);
    refuse("1,a\n2,b\n3,\"a\n4,b\n5,a\n", None, &["line 3", "a quote not closed"]);
    refuse("1,2,x\n1,2\n", None, &["line: 2", "3 fields"]);
    refuse("1,2,x\n1,2,x\n", None, &["all rows are of class `x`"]);
    refuse("1,2,x\n1,2,y\n", None, &["a class of its own"]);
    let prices: String = (0..150_000).map(|row| format!("1,{}\n", row / 2)).collect();
    refuse(&prices, None, &["line 131073", "more than 65536 classes", ",label=COLUMN"]);
    refuse("1,2,0.5\n1,2,1.5\n1,2,0.5\n", None, &["`0.5` is not a class"]);
    refuse("a,b,c\n1,2,x\n", Some("kind"), &["no column `kind`", "a, b, c"]);
    let place = temporary();
    write(&place.path().join("small.csv"), b"1,x\n2,y\n3,x\n4,y\n");
    says(
        &refused(&format!("csv:{}", text(place.path().join("small.csv"))), place.path()),
        &["small.csv", "too few rows"],
    );
    says(&refused("csv:/nowhere.csv", place.path()), &["/nowhere.csv"]);
}

#[test]
fn a_column_of_numbers_may_be_what_is_asked_for() {
    let place = temporary();
    let file = place.path().join("houses.csv");
    let lines: String = (0..50).map(|row| format!("{row},{},{}\n", 1_000 + 10 * row, row % 7)).collect();
    write(&file, ("area,price,rooms\n".to_owned() + &lines).as_bytes());
    let data = opened(&format!("csv:{},target=price", text(file.clone())), place.path());
    let of = data.train.description();
    assert_eq!((of.goal, &of.classes[..]), (Goal::Regress, &["price".to_owned()][..]));
    assert_eq!(of.columns, ["area", "rooms"]);
    assert_eq!((data.train.len(), data.test.len()), (40, 10));
    let prices = |part: &dyn Dataset| -> Vec<f32> {
        let price = |index| match sample(part, index).target {
            Target::Numbers(numbers) => numbers[0],
            other => panic!("{other:?}"),
        };
        (0..part.len()).map(price).collect()
    };
    let train = prices(&*data.train);
    let mut all = [train.clone(), prices(&*data.test)].concat();
    all.sort_by(f32::total_cmp);
    assert_eq!(all, (0..50).map(|row| (1_000 + 10 * row) as f32).collect::<Vec<_>>(), "in their own unit");
    // of the training part
    let scales = of.scales.as_ref().expect("of numbers");
    let mean = train.iter().map(|&price| f64::from(price)).sum::<f64>() / 40.0;
    let variance = train.iter().map(|&price| (f64::from(price) - mean).powi(2)).sum::<f64>() / 40.0;
    assert!((f64::from(scales.mean[0]) - mean).abs() < 1e-3, "{scales:?}");
    assert!((f64::from(scales.std[0]) - variance.sqrt()).abs() < 1e-3, "{scales:?}");
    assert_eq!(data.test.description().scales.as_ref(), Some(scales));

    let number = |column: &str| TableTarget::Number(column.into());
    let read = |text: &str, column| parse_csv(Path::new("t.csv"), text.as_bytes(), &number(column));
    let unnamed = read("1,2.5,3\n4,5.5,6\n", "2").expect("a table");
    assert_eq!((&unnamed.description().classes[..], unnamed.numbers()), (&["number".to_owned()][..], &[2.5, 5.5][..]));
    assert!(unnamed.labels().is_empty() && unnamed.len() == 2);
    for (text, words) in [
        ("a,b\n1,x\n", "column 2 is `x` instead of a number"),
        ("a,b\n1,\n", "column 2 is `` instead of a number"),
        ("a,b\n1,inf\n", "column 2 is `inf` instead of a number"),
        ("a,b\n", "no row"),
        ("b\n1\n", "features and a number to predict"),
    ] {
        let error = read(text, "b").expect_err("should be refused").to_string();
        assert!(error.contains(words), "{error}");
    }
    let error = read("1,2\n3,4\n", "price").expect_err("no such column").to_string();
    assert!(error.contains("`,target=2` is the last"), "{error}");
}
