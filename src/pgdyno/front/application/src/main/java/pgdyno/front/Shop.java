package pgdyno.front;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The pages of the shop, on the tables of the workload business. Each statement begins with a comment that names its
 * page, so that the server's view of a session says which request it works for.
 */
final class Shop {
    private static final int LISTED = 20;
    private static final int REPORTED = 500;
    private static final int ROUNDS_MAX = 40;
    private static final int ITEMS_MIN = 6;
    private static final int ITEMS_MAX = 7;
    private static final int DEVICE_FIRST = 1000;
    private static final int DEVICES = 10_000;
    private static final int EVENTS = 100;

    private final int customers;
    private final int products;

    /** Looks how many customers and products there are, without the pool, whose wait may be short. */
    Shop(Session.Lender lender) throws SQLException {
        try (Session session = new Session(lender)) {
            customers = highest(session, "business_customers");
            products = highest(session, "business_products");
        }
    }

    private static int highest(Session session, String table) throws SQLException {
        int highest = session.first("select coalesce(max(id), 0) from " + table, row -> row.getInt(1));
        if (highest < ITEMS_MAX) {
            throw new SQLException(table + " has too few rows");
        }
        return highest;
    }

    List<Page> pages() {
        List<Page> shop = List.of(
            new Page("/products", "a list of products: 1 statement", this::products),
            new Page("/product", "a product and its stock: 1 statement", this::product),
            new Page("/customer", "a customer and the last orders: 2 statements in a transaction", this::customer),
            new Page("/order", "a new order of 6 or 7 items: 28 or 32 statements in a transaction", this::order),
            new Page("/report", "lists the stock of 500 products, often: 1 statement, CPU and memory", this::report),
            new Page("/pay", "pays the oldest open order of a customer: 1 statement", this::pay),
            new Page("/events", "takes 100 events of a device: 1 statement and a batch in a transaction", this::events));
        String list = shop.stream().map(page -> page.path + "  " + page.title).collect(Collectors.joining("\n"));
        Page index = new Page("/", "the list of pages: no statement", (session, parameters) -> list);
        return Stream.concat(Stream.of(index), shop.stream()).toList();
    }

    private String products(Session session, Parameters parameters) throws SQLException {
        int first = parameters.number("first", 1, Math.max(1, products - LISTED + 1));
        return String.join("\n", session.query(
            "/* /products */ select id, name, price_cents from business_products where id between ? and ? order by id",
            row -> row.getInt(1) + "  " + row.getString(2) + "  " + row.getInt(3),
            first, first + LISTED - 1));
    }

    private String product(Session session, Parameters parameters) throws SQLException {
        int id = parameters.number("id", 1, products);
        if (parameters.has("leak")) {
            session.leak();
        }
        return String.join("\n", session.query(
            "/* /product */ select p.name, p.price_cents, s.in_stock from business_products p"
                + " join business_stock s on s.product = p.id where p.id = ?",
            row -> row.getString(1) + "  " + row.getInt(2) + "  " + row.getLong(3) + " in stock",
            id));
    }

    private String customer(Session session, Parameters parameters) throws SQLException {
        int id = parameters.number("id", 1, customers);
        session.begin();
        String who = session.first(
            "/* /customer */ select name, orders, spent_cents from business_customers where id = ?",
            row -> row.getString(1) + ": " + row.getInt(2) + " orders, " + row.getLong(3), id);
        List<String> orders = session.query(
            "/* /customer */ select id, placed, state, total_cents from business_orders where customer = ?"
                + " order by id desc limit 10",
            row -> row.getLong(1) + "  " + row.getString(2) + "  " + row.getString(3) + "  " + row.getLong(4), id);
        session.commit();
        return who + "\n" + String.join("\n", orders);
    }

    /** An order, sent one statement after the other, as an application without stored procedures does. */
    private String order(Session session, Parameters parameters) throws SQLException {
        int customer = parameters.number("customer", 1, customers);
        int items = parameters.number("items", ITEMS_MIN, ITEMS_MAX);
        session.begin();
        session.first("/* /order */ select name, spent_cents from business_customers where id = ?",
            row -> row.getString(1), customer);
        long order = session.first("/* /order */ insert into business_orders (customer) values (?) returning id",
            row -> row.getLong(1), customer);
        long total = 0;
        for (int line = 1; line <= items; line++) {
            total += item(session, order, line);
        }
        session.update("/* /order */ update business_orders set state = 'placed', total_cents = ? where id = ?",
            total, order);
        session.update("/* /order */ update business_customers set spent_cents = spent_cents + ?,"
            + " orders = orders + 1 where id = ?", total, customer);
        session.commit();
        return "order " + order + " of customer " + customer + ": " + items + " items, " + total;
    }

    /**
     * One item, whose price is returned. Each is from a seventh of the products of its own, in ascending order, so that
     * two orders never wait for each other in a circle.
     */
    private long item(Session session, long order, int line) throws SQLException {
        int seventh = products / ITEMS_MAX;
        int product = Parameters.random(1, seventh) + (line - 1) * seventh;
        int quantity = Parameters.random(1, 3);
        int price = session.first("/* /order */ select price_cents from business_products where id = ?",
            row -> row.getInt(1), product);
        session.first("/* /order */ select in_stock from business_stock where product = ?",
            row -> row.getLong(1), product);
        session.update("/* /order */ update business_stock set in_stock = in_stock - ? where product = ?",
            quantity, product);
        session.update("/* /order */ insert into business_order_lines (order_id, line, product, quantity, price_cents)"
            + " values (?, ?, ?, ?, ?)", order, line, product, quantity, price);
        return (long) quantity * price;
    }

    /** What an application computes that a statement could have: each round makes the whole text anew. */
    private String report(Session session, Parameters parameters) throws SQLException {
        int rounds = parameters.number("rounds", 1, ROUNDS_MAX);
        List<String> lines = session.query(
            "/* /report */ select product, in_stock from business_stock where product <= ? order by product",
            row -> row.getInt(1) + "  " + row.getLong(2), Math.min(REPORTED, products));
        String text = "";
        for (int round = 0; round < rounds; round++) {
            text = lines.stream().map(line -> line.toUpperCase(Locale.ROOT)).sorted().collect(Collectors.joining("\n"));
        }
        return text;
    }

    /** The events are rows of one batch. Devices are streams of their own, beside those that the load's scripts have. */
    private String events(Session session, Parameters parameters) throws SQLException {
        int device = parameters.number("device", DEVICE_FIRST, DEVICE_FIRST + DEVICES - 1);
        session.begin();
        long last = session.first("/* /events */ insert into business_positions as known values (?, ?)"
            + " on conflict (partition) do update set position = known.position + excluded.position returning position",
            row -> row.getLong(1), device, EVENTS);
        List<Object[]> rows = new ArrayList<>();
        for (long position = last - EVENTS + 1; position <= last; position++) {
            rows.add(new Object[] {device, position, "measured", Parameters.random(1, products)});
        }
        session.insert("/* /events */ insert into business_events (partition, position, kind, product)"
            + " values (?, ?, ?, ?)", rows);
        session.commit();
        return "device " + device + ": " + last + " events";
    }

    private String pay(Session session, Parameters parameters) throws SQLException {
        int customer = parameters.number("customer", 1, customers);
        int paid = session.update(
            "/* /pay */ with paid as (update business_orders set state = 'paid' where id = (select id from"
                + " business_orders where customer = ? and state = 'placed' order by id limit 1 for update skip locked)"
                + " returning id, total_cents) insert into business_payments (order_id, amount_cents)"
                + " select id, total_cents from paid", customer);
        return "customer " + customer + ": " + paid + " orders paid";
    }
}
